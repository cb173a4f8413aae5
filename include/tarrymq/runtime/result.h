#pragma once

#include <boost/system/result.hpp>

namespace tarry {

/// A value or an error. `E` is a room's error enum (registered as a boost error code) or, for what
/// a peer did wrong, a struct of its own. Never thrown across a room's border.
template <class T, class E = boost::system::error_code>
using Result = boost::system::result<T, E>;

}  // namespace tarry
