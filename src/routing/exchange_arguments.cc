#include <array>

#include "tarrymq/routing/exchange.h"

namespace tarry {

namespace {

constexpr std::array<std::string_view, 12> kKnownArguments{"alternate-exchange",
                                                           "x-alternate-exchange",
                                                           "x-delayed-type",
                                                           "x-delayed-exchange",
                                                           "hash-header",
                                                           "hash-property",
                                                           "x-hash-on",
                                                           "x-algorithm",
                                                           kDeduplicationArguments[0],
                                                           kDeduplicationArguments[1],
                                                           kDeduplicationArguments[2],
                                                           kDeduplicationArguments[3]};

std::string instead(const FieldValue& value) {
  return ", got the value '" + value.to_text() + "' of type '" + std::string(value.type_name()) +
         "'";
}

/// Reads the arguments one by one; the first complaint stays.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(const ExchangeSpec& spec) : spec_(spec) {}

  std::optional<PeerError> error;

  const FieldValue* find(std::string_view name) const { return spec_.arguments.find(name); }
  void complain(std::string_view argument, const std::string& what) {
    if (error) return;
    error = PeerError::precondition_failed("invalid arg '" + std::string(argument) +
                                           "' for exchange '" + spec_.name + "': " + what);
  }
  /// The text of an argument, if it is there and is one.
  const std::string* text(std::string_view name, const char* expected) {
    const FieldValue* value = find(name);
    if (!value) return nullptr;
    if (!value->text()) complain(name, std::string("expected ") + expected + instead(*value));
    return value->text();
  }

 private:
  const ExchangeSpec& spec_;
};

void check_delay(const ExchangeSpec& spec, ArgumentCheck& check, ExchangeArguments& out) {
  static constexpr const char* kDelayedTypes =
      "one of direct, fanout, topic, headers, x-consistent-hash, x-modulus-hash, x-random";
  out.routes_as = spec.type;
  if (spec.type == ExchangeType::delayed) {
    out.delays = true;
    const FieldValue* value = check.find("x-delayed-type");
    if (!value)
      return check.complain("x-delayed-type",
                            std::string("it must be there: expected ") + kDelayedTypes);
    const auto inner = value->text() ? exchange_type_of(*value->text()) : std::nullopt;
    if (!inner || *inner == ExchangeType::delayed) {
      return check.complain("x-delayed-type",
                            std::string("expected ") + kDelayedTypes + instead(*value));
    }
    out.routes_as = *inner;
    return;
  }
  const FieldValue* value = check.find("x-delayed-exchange");
  if (!value) return;
  if (!value->boolean())
    return check.complain("x-delayed-exchange", "expected a boolean" + instead(*value));
  out.delays = *value->boolean() && spec.type != ExchangeType::retry;
}

void check_hash(ArgumentCheck& check, ExchangeArguments& out) {
  if (out.routes_as != ExchangeType::consistent_hash) return;
  if (const std::string* algorithm = check.text("x-algorithm", "ring or jump")) {
    if (*algorithm != "ring" && *algorithm != "jump") {
      check.complain("x-algorithm", "expected ring or jump" + instead(*check.find("x-algorithm")));
    }
  }
  for (const char* name : {"hash-header", "x-hash-on"}) {
    const std::string* header = check.text(name, "the name of a header as longstr");
    if (!header || header->empty()) continue;
    out.hash_on = {HashOn::What::header, *header};
  }
  const std::string* property =
      check.text("hash-property", "correlation_id, message_id or timestamp");
  if (!property) return;
  if (out.hash_on.what == HashOn::What::header) {
    return check.complain("hash-property",
                          "hashing by a header and by a property exclude each other");
  }
  if (*property != "correlation_id" && *property != "message_id" && *property != "timestamp") {
    return check.complain("hash-property", "expected correlation_id, message_id or timestamp" +
                                               instead(*check.find("hash-property")));
  }
  out.hash_on = {HashOn::What::property, *property};
}

}  // namespace

std::span<const std::string_view> known_exchange_arguments() { return kKnownArguments; }

Result<ExchangeArguments, PeerError> check_exchange_arguments(const ExchangeSpec& spec) {
  ArgumentCheck check(spec);
  ExchangeArguments out;
  for (const char* name : {"alternate-exchange", "x-alternate-exchange"}) {
    (void)check.text(name, "the name of an exchange as longstr");
  }
  check_delay(spec, check, out);
  check_hash(check, out);
  auto deduplication = deduplication_of(spec.arguments);
  if (deduplication)
    out.deduplication = std::move(*deduplication);
  else
    check.complain(deduplication.error().argument, deduplication.error().text);
  if (check.error) return *check.error;
  return out;
}

}  // namespace tarry
