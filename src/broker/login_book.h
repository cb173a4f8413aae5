#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "tarrymq/broker/management.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// Counts log-ins, for those who look for a client with a wrong password. Any thread.
class LoginBook {
 public:
  /// `protocol`: amqp091 or http.
  void note(const char* protocol, const LoginOrigin& from, const std::string& user, bool succeeded);
  std::vector<LoginAttempts> by_protocol() const;
  /// Of the kLoginSourcesMax that tried last.
  std::vector<LoginAttempts> by_source() const;
  void forget();

 private:
  static constexpr size_t kUserBytesMax = 255;  // a guesser's name may be anything
  struct Source {
    LoginAttempts attempts;
    uint64_t last = 0;  // the number of its last attempt
  };
  void make_room();

  mutable std::mutex mutex_;  // guards what follows
  uint64_t count_ = 0;
  std::map<std::string, LoginAttempts> protocols_;
  std::map<std::tuple<std::string, std::string, std::string>, Source> sources_;
};

}  // namespace tarry
