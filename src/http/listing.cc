#include "http/listing.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace tarry::http {
namespace {

constexpr uint64_t kPageSizeMax = 10'000;

Result<uint64_t, std::string> positive(std::string_view what, const std::string& text,
                                       uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > max) {
    return "invalid " + std::string(what) + " '" + text + "': must be an integer from 1 to " +
           std::to_string(max);
  }
  return value;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text = text.substr(comma + 1);
  }
  return out;
}

const Json* at_path(const Json& object, std::string_view path) {
  const Json* here = &object;
  while (true) {
    if (!here->is_object()) return nullptr;
    const size_t dot = path.find('.');
    const auto found = here->find(std::string(path.substr(0, dot)));
    if (found == here->end()) return nullptr;
    here = &*found;
    if (dot == std::string_view::npos) return here;
    path = path.substr(dot + 1);
  }
}

void copy_path(const Json& from, Json& to, std::string_view path) {
  const size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  const auto found = from.find(key);
  if (found == from.end()) return;
  if (dot == std::string_view::npos) {
    to[key] = *found;
  } else if (found->is_object()) {
    Json& below = to[key];
    if (!below.is_object()) below = Json::object();
    copy_path(*found, below, path.substr(dot + 1));
  }
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [&](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

/// What is not there sorts first, then by kind, then by value.
bool sorts_before(const Json& a, const Json& b) { return a < b; }

Result<std::vector<size_t>, std::string> filter(const ListQuery& query, const Listing& listing) {
  std::vector<size_t> kept;
  kept.reserve(listing.count);
  if (query.name.empty()) {
    kept.resize(listing.count);
    std::iota(kept.begin(), kept.end(), size_t{0});
    return kept;
  }
  std::unique_ptr<re2::RE2> pattern;
  if (query.use_regex) {
    re2::RE2::Options options;
    options.set_case_sensitive(false);
    options.set_log_errors(false);
    pattern = std::make_unique<re2::RE2>(query.name, options);
    if (!pattern->ok())
      return "invalid regular expression '" + query.name + "': " + pattern->error();
  }
  for (size_t i = 0; i < listing.count; ++i) {
    const std::string_view name = listing.name(i);
    const bool fits =
        pattern ? re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *pattern)
                : contains_ignoring_case(name, query.name);
    if (fits) kept.push_back(i);
  }
  return kept;
}

// A row of a list of queues takes some 50 us, one field of it a few.
constexpr size_t kRowsPerSlice = 64;
constexpr size_t kKeysPerSlice = 1024;

/// Works on a list, slice by slice, to its answer.
class ListWriter {
 public:
  ListWriter(const Request& request, const Listing& listing)
      : request_(request), listing_(listing) {}
  /// True once the answer is there.
  bool step();
  Response take() { return std::move(response_); }

 private:
  enum class State : uint8_t { start, keys, cut, rows, done };
  bool refuse(Response response) {
    response_ = std::move(response);
    state_ = State::done;
    return true;
  }
  bool start();
  void make_keys();
  void sort();
  bool cut();
  void write_rows();
  void finish();

  const Request& request_;
  const Listing& listing_;
  State state_ = State::start;
  ListQuery query_;
  Fields fields_;
  std::vector<size_t> rows_;
  std::vector<std::pair<Json, size_t>> keyed_;
  size_t at_ = 0, begin_ = 0, end_ = 0;
  uint64_t pages_ = 1;
  std::string body_;
  Response response_;
};

bool ListWriter::step() {
  switch (state_) {
    case State::start:
      if (start()) return true;
      if (state_ == State::keys) return false;
      [[fallthrough]];
    case State::cut:
      if (cut()) return true;
      [[fallthrough]];
    case State::rows:
      write_rows();
      if (at_ < end_) return false;
      finish();
      return true;
    case State::keys:
      make_keys();
      return false;
    case State::done:
      break;
  }
  return true;
}

bool ListWriter::start() {
  auto query = ListQuery::parse(request_);
  if (!query) return refuse(Response::bad_request(query.error()));
  query_ = std::move(*query);
  auto rows = filter(query_, listing_);
  if (!rows) return refuse(Response::bad_request(rows.error()));
  rows_ = std::move(*rows);
  fields_ = Fields(query_.columns);
  state_ = query_.sort.empty() ? State::cut : State::keys;
  return false;
}

void ListWriter::make_keys() {
  const Fields only({query_.sort});
  keyed_.reserve(rows_.size());
  const size_t until = std::min(rows_.size(), keyed_.size() + kKeysPerSlice);
  for (size_t i = keyed_.size(); i < until; ++i) {
    const Json object = listing_.render(rows_[i], only);
    const Json* key = at_path(object, query_.sort);
    keyed_.emplace_back(key ? *key : Json(), rows_[i]);
  }
  if (keyed_.size() == rows_.size()) sort();
}

void ListWriter::sort() {
  std::stable_sort(keyed_.begin(), keyed_.end(), [&](const auto& a, const auto& b) {
    return query_.sort_reverse ? sorts_before(b.first, a.first) : sorts_before(a.first, b.first);
  });
  for (size_t i = 0; i < rows_.size(); ++i) rows_[i] = keyed_[i].second;
  keyed_ = {};
  state_ = State::cut;
}

bool ListWriter::cut() {
  end_ = rows_.size();
  pages_ = std::max<uint64_t>(1, (rows_.size() + query_.page_size - 1) / query_.page_size);
  if (query_.page) {
    if (*query_.page > pages_) {
      return refuse(Response::error(400, "page_out_of_range",
                                    "page out of range: page " + std::to_string(*query_.page) +
                                        " of " + std::to_string(pages_)));
    }
    begin_ = static_cast<size_t>((*query_.page - 1) * query_.page_size);
    end_ = std::min<size_t>(rows_.size(), begin_ + static_cast<size_t>(query_.page_size));
  }
  at_ = begin_;
  body_ = query_.page ? "{\"items\":[" : "[";
  state_ = State::rows;
  return false;
}

void ListWriter::write_rows() {
  const size_t until = std::min(end_, at_ + kRowsPerSlice);
  for (; at_ < until; ++at_) {
    if (at_ > begin_) body_ += ',';
    body_ += json_text(fields_.cut(listing_.render(rows_[at_], fields_)));
  }
}

void ListWriter::finish() {
  body_ += ']';
  if (query_.page) {
    const Json about{{"item_count", end_ - begin_},   {"filtered_count", rows_.size()},
                     {"total_count", listing_.count}, {"page", *query_.page},
                     {"page_count", pages_},          {"page_size", query_.page_size}};
    body_ += ',';
    body_ += json_text(about).substr(1);
  }
  response_.body = std::move(body_);
  state_ = State::done;
}

/// A writer with what it works on.
struct ListTask : std::enable_shared_from_this<ListTask> {
  ListTask(std::shared_ptr<const Request> r, Responder to, Listing l)
      : request(std::move(r)), responder(std::move(to)), listing(std::move(l)) {}
  void go_on() {
    if (writer.step()) return responder.send(writer.take());
    responder.go_on_later([self = shared_from_this()] { self->go_on(); });
  }

  const std::shared_ptr<const Request> request;
  const Responder responder;
  const Listing listing;
  ListWriter writer{*request, listing};
};

}  // namespace

bool Fields::wants(std::string_view top_level) const {
  if (paths_.empty()) return true;
  return std::any_of(paths_.begin(), paths_.end(), [&](std::string_view path) {
    return path.substr(0, path.find('.')) == top_level;
  });
}

bool Fields::wants(std::string_view top_level, std::string_view key) const {
  if (paths_.empty()) return true;
  return std::any_of(paths_.begin(), paths_.end(), [&](std::string_view path) {
    const size_t dot = path.find('.');
    if (path.substr(0, dot) != top_level) return false;
    return dot == std::string_view::npos ||
           path.substr(dot + 1, path.find('.', dot + 1) - dot - 1) == key;
  });
}

Json Fields::cut(const Json& object) const {
  if (paths_.empty() || !object.is_object()) return object;
  Json out = Json::object();
  for (const auto& path : paths_) copy_path(object, out, path);
  return out;
}

Result<ListQuery, std::string> ListQuery::parse(const Request& request) {
  ListQuery query;
  const std::string* page = request.query_value("page");
  if (page != nullptr && !page->empty()) {
    auto value = positive("page", *page, UINT32_MAX);
    if (!value) return value.error();
    query.page = *value;
  }
  if (const std::string* size = request.query_value("page_size");
      size != nullptr && !size->empty()) {
    auto value = positive("page_size", *size, kPageSizeMax);
    if (!value) return value.error();
    query.page_size = *value;
  }
  if (const std::string* name = request.query_value("name")) query.name = *name;
  if (const std::string* sort = request.query_value("sort")) query.sort = *sort;
  if (const std::string* columns = request.query_value("columns"))
    query.columns = split_commas(*columns);
  query.use_regex = request.query_flag("use_regex");
  query.sort_reverse = request.query_flag("sort_reverse");
  return query;
}

Response list_response(const Request& request, const Listing& listing) {
  ListWriter writer(request, listing);
  while (!writer.step()) {
  }
  return writer.take();
}

void send_list(std::shared_ptr<const Request> request, Responder responder, Listing listing) {
  std::make_shared<ListTask>(std::move(request), std::move(responder), std::move(listing))->go_on();
}

Response list_response(const Request& request, const std::vector<Json>& objects,
                       const char* name_key) {
  static const std::string kNone;
  Listing listing;
  listing.count = objects.size();
  listing.name = [&](size_t i) -> std::string_view {
    const auto found = objects[i].find(name_key);
    return found != objects[i].end() && found->is_string() ? found->get_ref<const std::string&>()
                                                           : kNone;
  };
  listing.render = [&](size_t i, const Fields&) { return objects[i]; };
  return list_response(request, listing);
}

Response object_response(const Request& request, const std::function<Json(const Fields&)>& render) {
  auto query = ListQuery::parse(request);
  if (!query) return Response::bad_request(query.error());
  const Fields fields(query->columns);
  return Response::json(fields.cut(render(fields)));
}

}  // namespace tarry::http
