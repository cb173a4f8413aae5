#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "http/controllers/common.h"

namespace tarry {
class RetryOperations;
}

namespace tarry::http {

/// A query parameter that is a number, into `out` if it is there. False: it is something else,
/// `error` says what is allowed.
bool query_number(const Request& request, const char* key, uint64_t min, uint64_t max,
                  std::optional<uint64_t>& out, std::string& error);
/// Fails the reader if `object` has a key that is not `known`: a misspelt filter must not match
/// everything.
bool only_known(const Json& object, std::initializer_list<std::string_view> known,
                const std::string& what, BodyReader& reader);
/// Text, or a number or boolean as one would write it.
std::optional<std::string> text_or_number(const Json& object, const char* key, BodyReader& reader);
/// A handler with its context, as the router takes it.
inline Handler with_context(Context& context,
                            void (*handler)(Context&, std::shared_ptr<Request>, Responder)) {
  return [&context, handler](std::shared_ptr<Request> request, Responder responder) {
    handler(context, std::move(request), std::move(responder));
  };
}
/// Null when there is none, and then the 404 is sent.
RetryOperations* operations_of(Context& context, const Responder& responder);

}  // namespace tarry::http
