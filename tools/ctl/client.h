#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ctl {

using Json = nlohmann::json;

/// What a run ends with; `tarrymqctl --help` lists them.
enum ExitCode : int {
  kExitWell = 0,
  kExitRefused = 1,      // the broker said no: the text says why
  kExitUsage = 2,        // the command line
  kExitUnreachable = 3,  // no broker there, or no answer in time
  kExitForbidden = 4,    // wrong user or password, or not allowed
  kExitNotFound = 5,     // no such queue, user, ...
};

/// Ends the command: one line for stderr, and the exit code. Thrown, since a command is a straight
/// line of steps.
struct Failure {
  ExitCode code;
  std::string line;
};

using Query = std::vector<std::pair<std::string, std::string>>;

struct Answer {
  int status = 0;
  std::string body;
  Json json() const;  // null if there is no body; Failure if it is no JSON
};

/// Where the broker's HTTP API is, and as whom.
struct Target {
  std::string scheme = "http", host = "127.0.0.1", user = "guest", password = "guest", ca_file;
  int port = 15672;
  int timeout_s = 60;
  bool insecure = false;
  /// http://user:password@host:port; parts that are missing stay as they are. Failure if it is no
  /// such thing.
  void read_uri(const std::string& uri);
};

/// Calls of the HTTP API, one after the other on one connection.
class Client {
 public:
  /// Bytes sent or received so far, and of how many (0: not known).
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  explicit Client(Target target);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// `path` begins with /api; its parts are encoded already. Failure unless the status is 2xx.
  Answer call(const std::string& method, const std::string& path, const std::string& body = "");
  /// The same without the check of the status: for questions whose answer may be "no".
  Answer try_call(const std::string& method, const std::string& path, const std::string& body = "");
  Json get(const std::string& path, const Query& query = {});
  /// PUT or POST of an object; what came back.
  Json send(const std::string& method, const std::string& path, const Json& body);
  void remove(const std::string& path);
  void on_progress(Progress progress) { progress_ = std::move(progress); }

 private:
  [[noreturn]] void fail(const std::string& method, const std::string& path,
                         const Answer& answer) const;

  const Target target_;
  void* curl_;
  Progress progress_;
};

std::string encode(std::string_view part);
/// path("queues", vhost, name) is /api/queues/%2F/name.
template <class... Parts>
std::string path(std::string_view first, const Parts&... parts) {
  std::string out = "/api/" + std::string(first);
  ((out += "/" + encode(parts)), ...);
  return out;
}
std::string with_query(std::string path, const Query& query);

}  // namespace ctl
