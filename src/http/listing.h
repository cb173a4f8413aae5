#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "tarrymq/runtime/result.h"

namespace tarry::http {

/// Which fields of an object are worth making: all, or those that `columns` and `sort` name (dotted
/// paths, http-api H-09, H-10). A renderer asks for its top-level fields, so that sorting 10,000
/// queues by one number costs one number each.
class Fields {
 public:
  Fields() = default;  // all
  explicit Fields(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  bool all() const { return paths_.empty(); }
  bool wants(std::string_view top_level) const;
  /// Of an object below: whether `key` in it is wanted.
  bool wants(std::string_view top_level, std::string_view key) const;
  /// Keeps what the paths name, at any depth.
  Json cut(const Json& object) const;

 private:
  std::vector<std::string> paths_;
};

/// Builds an object field by field, the unwanted ones left out without being computed.
class ObjectWriter {
 public:
  explicit ObjectWriter(const Fields& fields) : fields_(fields) {}
  template <class Make>
  void lazy(const char* name, Make make) {
    if (fields_.wants(name)) object_[name] = make();
  }
  template <class Value>
  void put(const char* name, Value&& value) {
    if (fields_.wants(name)) object_[name] = std::forward<Value>(value);
  }
  /// Null for "": RabbitMQ's way of saying "none".
  void put_name_or_null(const char* name, const std::string& value) {
    if (fields_.wants(name)) object_[name] = value.empty() ? Json() : Json(value);
  }
  Json take() { return std::move(object_); }

 private:
  const Fields& fields_;
  Json object_ = Json::object();
};

/// The query of a list: filter, sort, columns, page (http-api H-06 to H-10).
struct ListQuery {
  std::optional<uint64_t> page;  // from 1; none: everything, as a bare array
  uint64_t page_size = 100;      // 1..10000
  std::string name;  // part of the name, or a regular expression; both whatever the case
  bool use_regex = false;
  std::string sort;  // dotted path
  bool sort_reverse = false;
  std::vector<std::string> columns;

  /// The error is the reason for a 400.
  static Result<ListQuery, std::string> parse(const Request& request);
};

/// What is listed: `count` things, each with a name and as an object. For send_list the functions
/// hold what they refer to.
struct Listing {
  size_t count = 0;
  std::function<std::string_view(size_t)> name;
  std::function<Json(size_t, const Fields&)> render;
};

/// The whole answer: filters by name, sorts, cuts the page, renders what is on it.
/// For example 250 things, page=3: {"items": 50, "item_count": 50, "page_count": 3,
/// "filtered_count": 250, ...}.
Response list_response(const Request& request, const Listing& listing);
/// The same for what may be long: worked on and written in slices of some milliseconds, so that the
/// server's thread answers others in between.
void send_list(std::shared_ptr<const Request> request, Responder responder, Listing listing);
/// The same over objects that are there already. `name_key`: what the name filter looks at.
Response list_response(const Request& request, const std::vector<Json>& objects,
                       const char* name_key = "name");
/// One object, with `columns` applied.
Response object_response(const Request& request, const std::function<Json(const Fields&)>& render);

}  // namespace tarry::http
