#include "main/port_probe.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tarry {

std::string probe_port(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  if (::getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return "bind is not a numeric address";
  }
  int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  bool well = fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
              ::bind(fd, found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd, 1) == 0;
  int cause = errno;
  if (fd >= 0) ::close(fd);
  ::freeaddrinfo(found);
  return well ? std::string() : std::string(::strerror(cause));
}

}  // namespace tarry
