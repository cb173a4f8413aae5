#include "ctl/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ctl {
namespace {

constexpr size_t kBarCells = 30;

/// Characters as a terminal counts them, roughly: bytes that continue an UTF-8 sequence take no
/// room.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// Control characters would move the cursor.
std::string tame(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return out;
}

void write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_flat(const std::string& name, const Json& value) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items())
      print_flat(name.empty() ? key : name + "." + key, inner);
    return;
  }
  write(name + ": " + cell(value) + "\n");
}

}  // namespace

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return tame(value.get<std::string>());
  if (value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); })) {
    std::string out;
    for (const Json& word : value) out += (out.empty() ? "" : ",") + tame(word.get<std::string>());
    return out;
  }
  if (value.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value.get<double>());
    return text;
  }
  return tame(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json at_path(const Json& object, const std::string& path) {
  if (const auto whole = object.find(path); whole != object.end()) return *whole;
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto found = object.find(path.substr(0, dot));
  return found != object.end() && found->is_object() ? at_path(*found, path.substr(dot + 1))
                                                     : Json();
}

bool has_path(const Json& object, const std::string& path) {
  if (object.contains(path)) return true;
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return false;
  const auto found = object.find(path.substr(0, dot));
  return found != object.end() && found->is_object() && has_path(*found, path.substr(dot + 1));
}

void print_rows(const Json& rows, const std::vector<std::string>& columns, Format format,
                bool head) {
  if (format == Format::json) {
    Json out = Json::array();
    for (const Json& row : rows) {
      Json object = Json::object();
      for (const std::string& column : columns) object[column] = at_path(row, column);
      out.push_back(std::move(object));
    }
    return write(out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  std::vector<std::vector<std::string>> table;
  if (head) table.push_back(columns);
  for (const Json& row : rows) {
    std::vector<std::string> line;
    for (const std::string& column : columns) line.push_back(cell(at_path(row, column)));
    table.push_back(std::move(line));
  }
  std::vector<size_t> widths(columns.size(), 0);
  for (const auto& line : table) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  for (const auto& line : table) {
    std::string out;
    for (size_t i = 0; i < line.size(); ++i) {
      out += line[i];
      if (i + 1 < line.size()) out += std::string(widths[i] - width(line[i]) + 2, ' ');
    }
    write(out + "\n");
  }
}

void print_object(const Json& object, Format format) {
  if (format == Format::json)
    return write(object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  print_flat("", object);
}

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_ && shown_percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::show(uint64_t done, uint64_t total, const std::string& note) {
  if (!visible_ || total == 0) return;
  const int percent = static_cast<int>(std::min<uint64_t>(100, done * 100 / total));
  if (percent == shown_percent_ && note == shown_note_) return;
  shown_percent_ = percent;
  shown_note_ = note;
  const size_t full = kBarCells * static_cast<size_t>(percent) / 100;
  const std::string bar = std::string(full, '#') + std::string(kBarCells - full, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %3d %% %s", what_.c_str(), bar.c_str(), percent,
               note.c_str());
  std::fflush(stderr);
}

}  // namespace ctl
