#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarry {

/// What systemd (or who speaks its protocol) is told of the process: sd_notify(3), one datagram to
/// the socket that NOTIFY_SOCKET names. Without that variable nothing is sent. Ours, since the
/// protocol is documented as stable for exactly that, and is one call; libsystemd would bring its
/// compression libraries into the process. Main thread only.
class ServiceManager {
 public:
  /// From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static ServiceManager from_environment();
  /// `socket`: a path, or "@name" in the abstract namespace; "" is nobody. `watchdog_us`: 0 is
  /// none.
  ServiceManager(std::string socket, uint64_t watchdog_us)
      : socket_(std::move(socket)), watchdog_us_(watchdog_us) {}

  /// Clients may connect. `status` is one line for `systemctl status`.
  bool ready(std::string_view status) const;
  /// SIGHUP is being acted on; ready() ends it.
  bool reloading() const;
  bool stopping() const;
  /// Still alive: to be called more often than every watchdog_us(). Nothing is sent where nobody
  /// waits for it.
  bool alive() const;
  uint64_t watchdog_us() const { return watchdog_us_; }

 private:
  /// False: nobody is there, or it could not be sent.
  bool send(std::string_view text) const;
  std::string socket_;
  uint64_t watchdog_us_;
};

}  // namespace tarry
