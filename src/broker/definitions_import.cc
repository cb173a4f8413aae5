#include <nlohmann/json.hpp>

#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "broker/foreign_arguments.h"
#include "broker/holding.h"
#include "broker/management_face.h"
#include "broker/passwords.h"
#include "broker/retry_overrides.h"
#include "broker/vhost_face.h"
#include "tarrymq/broker/json_values.h"
#include "tarrymq/broker/retry_override_json.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {
namespace {

using nlohmann::json;

std::string text_in(const json& object, const char* name, const std::string& missing = "") {
  auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : missing;
}

bool flag_in(const json& object, const char* name) {
  auto it = object.find(name);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

FieldTable table_in(const json& object, const char* name) {
  auto it = object.find(name);
  if (it == object.end()) return {};
  auto table = table_from_json(*it);
  return table ? std::move(*table) : FieldTable();
}

/// LavinMQ writes an exchange that delays under the type it routes by, with a flag beside the
/// arguments.
void set_delayed(ExchangeDeclare& declare) {
  if (declare.type == "x-delayed-message" || declare.arguments.find("x-delayed-exchange")) return;
  declare.arguments.set("x-delayed-exchange", FieldValue::boolean(true));
}

/// Arguments of queues that mean something to another broker and nothing to this one.
constexpr std::string_view kWithoutEffect[] = {"x-queue-mode",
                                               "x-queue-version",
                                               "x-queue-leader-locator",
                                               "x-queue-master-locator",
                                               "x-quorum-initial-group-size",
                                               "x-quorum-target-group-size",
                                               "x-max-in-memory-length",
                                               "x-max-in-memory-bytes",
                                               "x-cache-size",
                                               "x-consumer-disconnected-timeout"};

/// Tags as a list, or as RabbitMQ's older text with commas.
std::vector<std::string> tags_in(const json& object) {
  std::vector<std::string> tags;
  auto it = object.find("tags");
  if (it == object.end()) return tags;
  if (it->is_array()) {
    for (const json& tag : *it) {
      if (tag.is_string()) tags.push_back(tag.get<std::string>());
    }
    return tags;
  }
  std::string text = text_in(object, "tags"), word;
  for (char c : text + ",") {
    if (c != ',') {
      if (c != ' ') word.push_back(c);
    } else if (!word.empty()) {
      tags.push_back(std::move(word));
      word.clear();
    }
  }
  return tags;
}

/// What is wrong with a dump before anything is done; empty: nothing. Of all vhosts (not into one),
/// each entry says in which it belongs.
std::string complaint_about(const json& dump, bool of_all_vhosts) {
  constexpr std::string_view kInAVhost[] = {"permissions", "topic_permissions", "parameters",
                                            "policies",    "operator_policies", "exchanges",
                                            "queues",      "bindings"};
  if (!dump.is_object()) return "expected a JSON object";
  for (const char* list :
       {"users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
        "policies", "operator_policies", "exchanges", "queues", "bindings"}) {
    auto it = dump.find(list);
    if (it == dump.end()) continue;
    if (!it->is_array()) return std::string(list) + ": expected a list";
    for (const json& entry : *it) {
      if (!entry.is_object()) return std::string(list) + ": expected a list of objects";
      const bool in_a_vhost =
          std::ranges::find(kInAVhost, std::string_view(list)) != std::end(kInAVhost);
      if (of_all_vhosts && in_a_vhost && text_in(entry, "vhost").empty()) {
        return std::string(list) + ": '" + text_in(entry, "name") +
               "' has no vhost: expected its name as a string";
      }
      auto arguments = entry.find("arguments");
      if (arguments == entry.end()) continue;
      if (auto table = table_from_json(*arguments); !table)
        return std::string(list) + ": arguments: " + table.error();
    }
  }
  return "";
}

/// One import: step by step on the first shard, since each step waits until what it made is
/// durable.
class Import : public std::enable_shared_from_this<Import> {
 public:
  Import(Core& core, ManagementFace& face, std::string vhost, json dump,
         Answer<ImportReport> answer)
      : core_(core),
        face_(face),
        vhost_(std::move(vhost)),
        dump_(std::move(dump)),
        answer_(std::move(answer)) {}

  void start() {
    auto self = shared_from_this();
    name_left_out_sections();
    name_left_out_metadata();
    if (vhost_.empty()) {
      each("vhosts", [self](const json& e) { self->vhost(e); });
      each("users", [self](const json& e) { self->user(e); });
      each("permissions", [self](const json& e) { self->permission(e); });
      each("topic_permissions", [self](const json& e) { self->topic_permission(e); });
      each("global_parameters", [self](const json& e) { self->global_parameter(e); });
    }
    each("parameters", [self](const json& e) { self->component_parameter(e); });
    each("policies", [self](const json& e) { self->policy(e, false); });
    each("operator_policies", [self](const json& e) { self->policy(e, true); });
    each("exchanges", [self](const json& e) { self->exchange(e); });
    each("queues", [self](const json& e) { self->queue(e); });
    // Every step is under way (they share the registry's order); the last one to be durable goes
    // on.
    step_done();
  }

 private:
  void each(const char* list, const std::function<void(const json&)>& step) {
    auto it = dump_.find(list);
    if (it == dump_.end()) return;
    for (const json& entry : *it) step(entry);
  }

  /// Lists that nothing is made of: of another broker's, or of all vhosts when one is filled. What
  /// a vhost is (metadata, tags) goes with the vhost, which is there.
  void name_left_out_sections() {
    constexpr std::string_view kOfAllVhosts[] = {"vhosts", "users", "permissions",
                                                 "topic_permissions", "global_parameters"};
    constexpr std::string_view kOfEach[] = {"parameters", "policies", "operator_policies",
                                            "exchanges",  "queues",   "bindings",
                                            "metadata",   "tags"};
    for (const auto& [section, value] : dump_.items()) {
      if (!value.is_structured() || value.empty() ||
          std::ranges::find(kOfEach, std::string_view(section)) != std::end(kOfEach)) {
        continue;
      }
      const bool known =
          std::ranges::find(kOfAllVhosts, std::string_view(section)) != std::end(kOfAllVhosts);
      if (known && vhost_.empty()) continue;
      skip("section '" + section + "' left out: " +
           (known ? "it does not belong to one vhost" : "not known to this broker"));
    }
  }

  /// Into a vhost that is there: it stays what it is.
  void name_left_out_metadata() {
    if (vhost_.empty()) return;
    VhostInfo there;
    {
      std::shared_lock lock(core_.registry.mutex);
      const auto found = core_.registry.find_vhost(vhost_);
      if (!found) return;
      there = found->about;
    }
    const json metadata = dump_.value("metadata", json::object());
    if (!metadata.is_object()) return;
    const auto name_if = [&](bool differs, const char* what) {
      if (differs)
        skip(std::string(what) + " of vhost '" + vhost_ + "' left out: what it has stays");
    };
    name_if(text_in(metadata, "description", there.description) != there.description,
            "description");
    name_if(metadata.contains("tags") && tags_in(metadata) != there.tags, "tags");
    const std::string type = text_in(metadata, "default_queue_type", there.default_queue_type);
    name_if(type != there.default_queue_type && type != "undefined", "default queue type");
  }

  std::string vhost_of(const json& entry) const {
    return vhost_.empty() ? text_in(entry, "vhost", "/") : vhost_;
  }
  void skip(std::string line) { report_.skipped.push_back(std::move(line)); }

  /// The answer of one step: what went wrong is named, and the import goes on.
  template <class T>
  Answer<T> step(std::string what) {
    ++open_steps_;
    return [self = shared_from_this(), what = std::move(what)](const Result<T, PeerError>& result) {
      if (result) {
        self->step_done();
        return;
      }
      self->skip(what + ": " + result.error().text);
      self->step_done();
    };
  }
  /// A queue may have had to wait for its id: what is bound comes when all are there.
  void step_done() {
    if (--open_steps_ > 0) return;
    if (bindings_begun_) return answer_(std::move(report_));
    bindings_begun_ = true;
    open_steps_ = 1;
    each("bindings", [self = shared_from_this()](const json& e) { self->binding(e); });
    step_done();
  }

  /// The vhost's face, or null and a line in the report.
  std::shared_ptr<VhostFace> face_of(const std::string& vhost, const std::string& what) {
    std::shared_ptr<Vhost> found;
    {
      std::shared_lock lock(core_.registry.mutex);
      found = core_.registry.find_vhost(vhost);
    }
    if (found) return core_.face(found);
    skip(what + ": no vhost '" + vhost + "'");
    return nullptr;
  }
  /// Imports are an administrator's: no permissions are looked at.
  Actor actor() { return {nullptr, ConnectionId{}, core_.desks[0]->me()}; }

  void vhost(const json& e) {
    std::string name = text_in(e, "name");
    {
      std::shared_lock lock(core_.registry.mutex);
      if (core_.registry.find_vhost(name)) return;
    }
    VhostInfo info;
    info.name = name;
    const json metadata = e.value("metadata", json::object());
    info.description = text_in(e, "description", text_in(metadata, "description"));
    info.tags = e.contains("tags") ? tags_in(e) : tags_in(metadata);
    info.default_queue_type =
        text_in(e, "default_queue_type", text_in(metadata, "default_queue_type"));
    info.protected_from_deletion = flag_in(e, "protected_from_deletion");
    if (info.default_queue_type == "undefined") info.default_queue_type.clear();
    if (info.default_queue_type == "stream") {
      skip("vhost '" + name +
           "': default queue type stream left out: this broker has no streams yet");
      info.default_queue_type.clear();
    }
    if (flag_in(e, "tracing"))
      skip("vhost '" + name + "': tracing left out: this broker does not trace");
    face_.put_vhost(std::move(info), step<bool>("vhost '" + name + "'"));
  }

  void user(const json& e) {
    UserInfo info;
    info.name = text_in(e, "name");
    info.password_hash = text_in(e, "password_hash");
    info.hashing_algorithm = text_in(e, "hashing_algorithm", "rabbit_password_hashing_sha256");
    if (info.password_hash.starts_with("$2"))
      info.hashing_algorithm = "bcrypt";  // LavinMQ's, whatever it calls it
    info.tags = tags_in(e);
    std::optional<std::string> password;
    if (info.password_hash.empty() && e.contains("password")) password = text_in(e, "password");
    std::string what = "user '" + info.name + "'", name = info.name;
    face_.put_user(std::move(info), std::move(password), step<bool>(what));
    limits(e, what, [this, name](const std::string& limit, int64_t value, Answer<void> done) {
      face_.put_user_limit(name, limit, value, std::move(done));
    });
  }

  void permission(const json& e) {
    PermissionInfo info{text_in(e, "user"), text_in(e, "vhost"), text_in(e, "configure"),
                        text_in(e, "write"), text_in(e, "read")};
    std::string what = "permissions of user '" + info.user + "' in vhost '" + info.vhost + "'";
    face_.put_permission(std::move(info), step<bool>(std::move(what)));
  }

  void topic_permission(const json& e) {
    TopicPermissionInfo info{text_in(e, "user"), text_in(e, "vhost"), text_in(e, "exchange"),
                             text_in(e, "write"), text_in(e, "read")};
    std::string what =
        "topic permissions of user '" + info.user + "' in vhost '" + info.vhost + "'";
    face_.put_topic_permission(std::move(info), step<bool>(std::move(what)));
  }

  /// {"max-queues": 3} at "limits" (or "value") of an entry; RabbitMQ writes [] for none.
  void limits(const json& e, const std::string& what,
              const std::function<void(const std::string&, int64_t, Answer<void>)>& put) {
    auto found = e.find("limits");
    if (found == e.end()) found = e.find("value");
    if (found == e.end() || !found->is_object()) return;
    for (const auto& [limit, value] : found->items()) {
      if (value.is_number_integer())
        put(limit, value.get<int64_t>(), step<void>(what + ": limit " + limit));
      else
        skip(what + ": limit " + limit + " left out: no integer");
    }
  }

  /// Some are another kind of thing here; the others need a component that this broker has not.
  void component_parameter(const json& e) {
    const std::string component = text_in(e, "component"), name = text_in(e, "name"),
                      vhost = vhost_of(e);
    const std::string what =
        "parameter '" + name + "' of component '" + component + "' in vhost '" + vhost + "'";
    if (component == "vhost-limits") {
      limits(e, what, [this, vhost](const std::string& limit, int64_t value, Answer<void> done) {
        face_.put_vhost_limit(vhost, limit, value, std::move(done));
      });
      return;
    }
    if (component == "operator_policy" && e.contains("value") &&
        e["value"].is_object()) {  // as RabbitMQ 3 writes them
      json as_policy = e["value"];
      as_policy["name"] = name;
      as_policy["vhost"] = vhost;
      policy(as_policy, true);
      return;
    }
    const bool known = component == "shovel" || component.starts_with("federation");
    skip(what + (known ? " left out: this broker has no shovels and no federation yet"
                       : " left out: this broker has no such component"));
  }

  void global_parameter(const json& e) {
    ParameterInfo info{"", "", text_in(e, "name"),
                       e.contains("value") ? e["value"].dump() : "null"};
    auto done = step<void>("parameter '" + info.name + "'");
    std::unique_lock lock(core_.registry.mutex);
    DefinitionBatch batch;
    batch.puts.emplace_back(definition::parameter_key(info.component, info.vhost, info.name),
                            definition::parameter_value(info));
    core_.registry.parameters[ParameterKey{info.component, info.vhost, info.name}] = info;
    core_.commit(lock, std::move(batch), [done] { done({}); });
  }

  void policy(const json& e, bool operators) {
    PolicyInfo info;
    info.vhost = vhost_of(e);
    info.name = text_in(e, "name");
    info.pattern = text_in(e, "pattern");
    info.apply_to = text_in(e, "apply-to", operators ? "queues" : "all");
    if (auto p = e.find("priority"); p != e.end() && p->is_number_integer())
      info.priority = p->get<int64_t>();
    info.definition = table_in(e, "definition");
    std::string what = std::string(operators ? "operator policy '" : "policy '") + info.name +
                       "' in vhost '" + info.vhost + "'";
    // retry-spec 7: the policy is kept without what cannot come from one.
    for (const std::string& key : remove_unknown_keys(info, operators)) {
      bool retry = key.starts_with("delayed-retry-");
      skip(what + ": " + key +
           (retry ? " left out: retries come from the queue's declaration (see the retry override)"
                  : " left out: not a setting of this broker"));
    }
    if (info.definition.empty()) return skip(what + " left out: no setting remains");
    face_.put_policy(std::move(info), operators, step<bool>(std::move(what)));
  }

  void exchange(const json& e) {
    ExchangeDeclare declare;
    declare.name = text_in(e, "name");
    declare.type = text_in(e, "type");
    declare.durable = flag_in(e, "durable");
    declare.auto_delete = flag_in(e, "auto_delete");
    declare.internal = flag_in(e, "internal");
    declare.arguments = table_in(e, "arguments");
    std::string vhost = vhost_of(e);
    std::string what = "exchange '" + declare.name + "' in vhost '" + vhost + "'";
    auto face = face_of(vhost, what);
    if (!face || face_.exchange(vhost, declare.name)) return;
    // LavinMQ lists those that are always there, and calls the one without a name so.
    if (declare.name == "amq.default") return;
    if (flag_in(e, "delayed")) set_delayed(declare);
    face->declare_exchange(actor(), std::move(declare), keep(face, step<void>(std::move(what))));
  }

  /// A queue is not left behind for an argument that has no effect here: it comes without it.
  /// LavinMQ and older RabbitMQ keep any.
  void leave_out_refused(FieldTable& arguments, const std::string& what) {
    const std::string type(queue_type_of(arguments));
    if (type == "stream") return;  // refused as a whole
    std::erase_if(arguments.entries, [&](const auto& entry) {
      const auto complaint = foreign_complaint(entry.first, entry.second, type);
      if (complaint)
        skip(what + ": argument " + entry.first + " left out: not allowed" + *complaint);
      return complaint.has_value();
    });
  }

  void queue(const json& e) {
    QueueDeclare declare;
    declare.name = text_in(e, "name");
    declare.durable = flag_in(e, "durable");
    declare.auto_delete = flag_in(e, "auto_delete");
    declare.arguments = table_in(e, "arguments");
    std::string vhost = vhost_of(e);
    std::string what = "queue '" + declare.name + "' in vhost '" + vhost + "'";
    if (is_internal_queue_name(declare.name)) {
      return skip(what +
                  " left out: it belongs to another queue or exchange and comes with that one");
    }
    if (declare.name.empty()) return skip(what + " left out: it has no name");
    auto face = face_of(vhost, what);
    if (!face) return;
    if (face->find_queue(declare.name)) return compare_override(e, what, vhost, declare.name);
    leave_out_refused(declare.arguments, what);
    for (const auto& [argument, value] : declare.arguments.entries) {
      if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), argument) ==
          std::end(kWithoutEffect))
        continue;
      skip(what + ": argument " + argument + " is kept and has no effect here");
    }
    Answer<QueueDeclared> declared = step<QueueDeclared>(what);
    // Before the step of the queue ends comes that of its override, so that the import is not over
    // in between.
    if (e.contains("retry_override")) {
      declared = [self = shared_from_this(), &e, what, vhost, name = declare.name,
                  declared](const Result<QueueDeclared, PeerError>& result) {
        if (result) self->put_retry_override(e["retry_override"], what, vhost, name);
        declared(result);
      };
    }
    face->declare_queue_unchecked(actor(), std::move(declare), keep(face, std::move(declared)));
  }

  void put_retry_override(const json& values, const std::string& what, const std::string& vhost,
                          const std::string& queue) {
    auto changes = retry_override_from_json(values);
    if (!changes) return skip(what + ": retry_override left out: " + changes.error());
    change_retry_override(core_, nullptr, vhost, queue, *changes,
                          step<void>(what + ": retry_override left out"));
  }

  /// Of a queue that was there before: what is there stays, also its override.
  void compare_override(const json& e, const std::string& what, const std::string& vhost_name,
                        const std::string& queue) {
    auto wanted = e.find("retry_override");
    if (wanted == e.end()) return;
    {
      std::shared_lock lock(core_.registry.mutex);
      auto vhost = core_.registry.find_vhost(vhost_name);
      auto there = vhost ? vhost->find_queue(queue) : nullptr;
      if (there && *wanted == to_json(there->retry_override)) return;
    }
    skip(what + ": retry_override left out: the queue was there before, and what it has stays");
  }

  void binding(const json& e) {
    BindingSpec spec{text_in(e, "source"), text_in(e, "destination"), text_in(e, "routing_key"),
                     text_in(e, "destination_type", "queue") == "queue", table_in(e, "arguments")};
    if (spec.source.empty()) return;  // the implicit binding of each queue
    std::string vhost = vhost_of(e);
    std::string what =
        "binding from '" + spec.source + "' to '" + spec.destination + "' in vhost '" + vhost + "'";
    if (spec.destination_is_queue && is_internal_queue_name(spec.destination)) {
      return skip(what + " left out: its queue belongs to another queue or exchange");
    }
    if (auto face = face_of(vhost, what))
      face->bind(actor(), std::move(spec), keep(face, step<void>(std::move(what))));
  }

  template <class T>
  static Answer<T> keep(std::shared_ptr<VhostFace> face, Answer<T> answer) {
    return [face, answer](const Result<T, PeerError>& result) { answer(result); };
  }

  Core& core_;
  ManagementFace& face_;
  const std::string vhost_;
  const json dump_;
  Answer<ImportReport> answer_;
  ImportReport report_;
  size_t open_steps_ = 1;  // start() itself
  bool bindings_begun_ = false;
};

}  // namespace

void ManagementFace::import_definitions(const std::string& vhost, std::string text,
                                        Answer<ImportReport> answer) {
  json dump = json::parse(text, nullptr, false);
  std::string complaint =
      dump.is_discarded() ? "the body is no JSON" : complaint_about(dump, vhost.empty());
  if (!complaint.empty()) {
    answer(PeerError::soft(400, std::move(complaint)));
    return;
  }
  auto import = std::make_shared<Import>(core_, *this, vhost, std::move(dump), std::move(answer));
  on_first_shard([import] { import->start(); });
}

}  // namespace tarry
