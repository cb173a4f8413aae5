#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// Field tables as the management API writes them: integers and floats as numbers, text as strings,
/// tables as objects, arrays as arrays, timestamps as numbers of seconds. Bytes that are no UTF-8
/// become U+FFFD.
nlohmann::json to_json(const FieldTable& table);
nlohmann::json to_json(const FieldValue& value);
/// Back: integers become 'l' (64-bit; 'I' where they fit), fractions 'd', null 'V'. The error names
/// what can't be held.
Result<FieldTable, std::string> table_from_json(const nlohmann::json& object);
Result<FieldValue, std::string> value_from_json(const nlohmann::json& value);

}  // namespace tarry
