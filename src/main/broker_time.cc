#include "main/broker_time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr int64_t kStepNs = 100'000'000;
constexpr int64_t kRefreshNs = 30'000'000'000;

uint32_t line_checksum(std::string_view text) {
  uint32_t sum = 2'166'136'261u;
  for (char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16'777'619u;
  return sum;
}

std::string time_line(const StoredTime& time, int version) {
  char line[96];
  std::snprintf(line, sizeof line, "tarrymq-clock %d %" PRId64 " %" PRId64 " ", version,
                time.offset_ns, time.broker_ns);
  std::string text = line;
  if (version >= 3)
    text += std::to_string(time.boot.ns) + " " + (time.boot.id.empty() ? "-" : time.boot.id) + " ";
  std::snprintf(line, sizeof line, "%08" PRIx32 "\n", line_checksum(text));
  return text + line;
}

/// Nothing unless it is a line as it was written.
std::optional<StoredTime> parse_time(const std::string& text) {
  std::istringstream in(text);
  std::string word, rest;
  int version = 0;
  StoredTime time;
  if (!(in >> word >> version >> time.offset_ns >> time.broker_ns) || word != "tarrymq-clock")
    return std::nullopt;
  if (version == 2 && text == time_line(time, 2)) return time;
  if (version == 3 && in >> time.boot.ns >> time.boot.id) {
    if (time.boot.id == "-") time.boot.id.clear();
    if (text == time_line(time, 3)) return time;
    return std::nullopt;
  }
  if (version == 1 && !(in >> rest)) return time;
  return std::nullopt;
}

bool sync_directory(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool well = ::fsync(fd) == 0;
  ::close(fd);
  return well;
}

}  // namespace

BootTime boot_time_now() {
  timespec t{};
  BootTime now;
  if (::clock_gettime(CLOCK_BOOTTIME, &t) != 0) return now;
  now.ns = static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> now.id;
  return now;
}

int64_t offset_at_start(const StoredTime& stored, const BootTime& boot_now, WallTime system_now) {
  const bool same_boot =
      !boot_now.id.empty() && boot_now.id == stored.boot.id && boot_now.ns >= stored.boot.ns;
  if (!same_boot) return stored.offset_ns;
  return stored.broker_ns + (boot_now.ns - stored.boot.ns) - system_now.ns;
}

std::optional<StoredTime> BrokerTimeFile::read() const {
  std::string path = directory_ + "/clock";
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  auto time = parse_time(text.str());
  if (!time)
    log_for("main")->error("{} is damaged or of another version: \"{}\"", path,
                           text.str().substr(0, 80));
  return time;
}

void BrokerTimeFile::keep(const SystemClock& clock, bool now_at_any_rate) {
  StoredTime time{clock.offset_ns(), clock.wall_now().ns, boot_time_now()};
  if (last_ && !now_at_any_rate) {
    bool stepped = std::abs(time.offset_ns - last_->offset_ns) > kStepNs;
    if (stepped) {
      log_for("main")->warn("the system's clock was stepped by {} ms; what waits is not affected",
                            (last_->offset_ns - time.offset_ns) / 1'000'000);
    } else if (time.broker_ns - last_->broker_ns < kRefreshNs) {
      return;
    }
  }
  if (write(time)) {
    last_ = time;
  } else {
    log_for("main")->warn("cannot write {}/clock: {}", directory_, ::strerror(errno));
  }
}

bool BrokerTimeFile::write(const StoredTime& time) const {
  std::string path = directory_ + "/clock", fresh = path + ".new";
  const std::string line = time_line(time, 3);
  const auto size = static_cast<ssize_t>(line.size());
  int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  bool well = ::write(fd, line.data(), line.size()) == size && ::fsync(fd) == 0;
  int cause = errno;
  ::close(fd);
  errno = cause;
  return well && ::rename(fresh.c_str(), path.c_str()) == 0 && sync_directory(directory_);
}

}  // namespace tarry
