#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ctl {

using Json = nlohmann::json;

enum class Format : uint8_t { table, json };

/// One value in a table's cell: text as it is, objects as compact JSON, null as "".
std::string cell(const Json& value);
/// The value at a dotted path (message_stats.publish_details.rate); null if it is not there.
Json at_path(const Json& object, const std::string& path);
/// Whether there is one, also null.
bool has_path(const Json& object, const std::string& path);
/// Rows of objects, these columns of them. JSON: an array of objects; table: a head line and
/// aligned columns.
void print_rows(const Json& rows, const std::vector<std::string>& columns, Format format,
                bool head);
/// One object: JSON as it is, or a line each of name and value, nested ones with a dotted name.
void print_object(const Json& object, Format format);

/// A bar on stderr, when that is a terminal: what is done of a whole, redrawn in place. Nothing
/// else.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();  // takes the bar away
  void show(uint64_t done, uint64_t total, const std::string& note = "");

 private:
  const std::string what_;
  const bool visible_;
  int shown_percent_ = -1;
  std::string shown_note_;
};

}  // namespace ctl
