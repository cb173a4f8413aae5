#include "main/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace tarry {
namespace {

uint64_t number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  uint64_t watchdog_us = number_in_environment("WATCHDOG_USEC");
  const uint64_t meant = number_in_environment("WATCHDOG_PID");
  if (meant != 0 && meant != static_cast<uint64_t>(::getpid())) watchdog_us = 0;
  return ServiceManager(socket == nullptr ? "" : socket, watchdog_us);
}

bool ServiceManager::send(std::string_view text) const {
  sockaddr_un address{};
  if (socket_.size() < 2 || socket_.size() > sizeof address.sun_path ||
      (socket_[0] != '/' && socket_[0] != '@'))
    return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const ssize_t sent = ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL,
                                reinterpret_cast<sockaddr*>(&address), size);
  ::close(fd);
  return sent == static_cast<ssize_t>(text.size());
}

bool ServiceManager::ready(std::string_view status) const {
  return send("READY=1\nSTATUS=" + std::string(status) + "\n");
}

bool ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto us =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1'000;
  return send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us) + "\n");
}

bool ServiceManager::stopping() const { return send("STOPPING=1\nSTATUS=stopping\n"); }

bool ServiceManager::alive() const { return watchdog_us_ != 0 && send("WATCHDOG=1\n"); }

}  // namespace tarry
