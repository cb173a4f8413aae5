#pragma once

namespace tarry {

/// Logs the broken invariant and aborts. On in release too: going on with broken state could lose
/// messages.
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line);

}  // namespace tarry

#define TARRY_INVARIANT(condition)        \
  (static_cast<bool>(condition) ? void(0) \
                                : ::tarry::invariant_failed(#condition, __FILE__, __LINE__))
