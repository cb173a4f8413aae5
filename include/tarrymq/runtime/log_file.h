#pragma once

#include <string>

namespace tarry {

/// The log (log.h) is appended to this file from now on, made if it is missing; "" is stderr. With
/// the same path again: closes it and opens what has the name now, so that a file that was moved
/// away is left (log rotation). No line is lost or cut in two. Any thread. The error is what the
/// system said; the log goes on where it was then.
std::string set_log_file(const std::string& path);

}  // namespace tarry
