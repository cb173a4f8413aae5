#pragma once

#include <string>

namespace tarry {

/// Looks at the definitions' files for damage that RocksDB would take in silence: a missing CURRENT
/// (it would begin anew), and a log whose middle is damaged (it would end there; what lies behind
/// would be gone). Reads only. Empty: nothing was found; else a line that names the file and what
/// is wrong with it. Blocks.
std::string find_silent_damage(const std::string& directory);

/// True if there is anything of a RocksDB in it.
bool holds_a_database(const std::string& directory);

}  // namespace tarry
