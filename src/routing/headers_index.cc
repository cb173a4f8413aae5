#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "routing/binding_index.h"
#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

namespace {

constexpr std::string_view kMatch = "x-match";

struct Mode {
  bool any = false;
  bool with_x = false;  // keys that begin with x- count as well
};

std::optional<Mode> mode_of(std::string_view text) {
  if (text == "all") return Mode{false, false};
  if (text == "any") return Mode{true, false};
  if (text == "all-with-x") return Mode{false, true};
  if (text == "any-with-x") return Mode{true, true};
  return std::nullopt;
}

struct Criterion {
  std::string name;
  FieldValue value;
};

/// A binding as it is asked of each message. all without criteria matches everything, any without
/// criteria nothing (RabbitMQ).
struct HeadersBinding {
  FieldTable arguments;
  bool any = false;
  std::vector<Criterion> criteria;
};

HeadersBinding make_binding(const FieldTable& arguments) {
  HeadersBinding out;
  out.arguments = arguments;
  Mode mode;
  if (const FieldValue* match = arguments.find(kMatch)) mode = mode_of(*match->text()).value();
  out.any = mode.any;
  for (const auto& [name, value] : arguments.entries) {
    if (name == kMatch || (!mode.with_x && name.starts_with("x-"))) continue;
    out.criteria.push_back({name, value});
  }
  return out;
}

/// The headers of one message by name; of several with one name the first counts.
class MessageHeaders {
 public:
  void load(ByteSpan table) {
    fields_.clear();
    TableReader reader(table);
    FieldView field;
    while (reader.next(field)) fields_.push_back(field);
    if (fields_.size() > kScanUpTo) std::ranges::stable_sort(fields_, {}, &FieldView::name);
  }
  const FieldView* find(std::string_view name) const {
    const auto found = fields_.size() > kScanUpTo
                           ? std::ranges::lower_bound(fields_, name, {}, &FieldView::name)
                           : std::ranges::find(fields_, name, &FieldView::name);
    return found != fields_.end() && found->name == name ? &*found : nullptr;
  }

 private:
  static constexpr size_t kScanUpTo = 8;
  std::vector<FieldView> fields_;
};

bool satisfies(const MessageHeaders& headers, const Criterion& criterion) {
  const FieldView* field = headers.find(criterion.name);
  if (field == nullptr) return false;
  if (criterion.value.type == 'V') return true;  // is there at all
  if (const std::string* text = criterion.value.text()) {
    return field->type == 'S' && as_text(field->value) == *text;
  }
  return field_value(*field).equivalent(criterion.value);
}

bool matches(const MessageHeaders& headers, const HeadersBinding& binding) {
  auto holds = [&](const Criterion& criterion) { return satisfies(headers, criterion); };
  return binding.any ? std::ranges::any_of(binding.criteria, holds)
                     : std::ranges::all_of(binding.criteria, holds);
}

class HeadersIndex : public BindingIndex {
 public:
  std::optional<PeerError> check(std::string_view, const FieldTable& arguments) const override {
    const FieldValue* match = arguments.find(kMatch);
    if (match == nullptr) return std::nullopt;
    if (match->text() == nullptr) {
      return PeerError::precondition_failed("invalid x-match field type " +
                                            std::string(match->type_name()) + " (value " +
                                            match->to_text() + "); expected longstr");
    }
    if (!mode_of(*match->text())) {
      return PeerError::precondition_failed("invalid x-match field value '" + *match->text() +
                                            "'; expected all, any, all-with-x or any-with-x");
    }
    return std::nullopt;
  }

  void add(const Destination* to, std::string_view, const FieldTable& arguments) override {
    by_destination_[to].push_back(make_binding(arguments));
  }

  void remove(const Destination* to, std::string_view, const FieldTable& arguments) override {
    const auto found = by_destination_.find(to);
    TARRY_INVARIANT(found != by_destination_.end());
    auto& bindings = found->second;
    const auto at = std::ranges::find_if(
        bindings, [&](const HeadersBinding& b) { return b.arguments.equivalent(arguments); });
    TARRY_INVARIANT(at != bindings.end());
    bindings.erase(at);
    if (bindings.empty()) by_destination_.erase(found);
  }

  void match(std::string_view, ByteSpan headers, RouteMatches& out) const override {
    thread_local MessageHeaders scratch;
    scratch.load(headers);
    for (const auto& [to, bindings] : by_destination_) {
      auto holds = [&](const HeadersBinding& binding) { return matches(scratch, binding); };
      if (std::ranges::any_of(bindings, holds)) append_destination(*to, out);
    }
  }

 private:
  std::unordered_map<const Destination*, std::vector<HeadersBinding>> by_destination_;
};

}  // namespace

std::unique_ptr<BindingIndex> make_headers_index() { return std::make_unique<HeadersIndex>(); }

}  // namespace tarry
