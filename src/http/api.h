#pragma once

#include <string>
#include <string_view>

#include "http/history.h"
#include "http/message.h"
#include "http/router.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/broker/process_operations.h"

namespace tarry::http {

/// What every controller has at hand. Server's thread.
struct Context {
  Management& broker;
  HistoryBook history;
  std::string node = "tarrymq@localhost";
  ProcessOperations* process = nullptr;  // null: there is none around the broker
};

/// The management API: the table of routes, and who may pass.
class ManagementApi final : public Api {
 public:
  explicit ManagementApi(Management& broker, ProcessOperations* process = nullptr);
  void admit(Request& head, Admitted done) override;
  void serve(std::shared_ptr<Request> request, Responder responder) override;
  /// Server's thread, every few seconds: a round of the history.
  void sample();
  const std::vector<Route>& routes() const { return router_.routes(); }

 private:
  Context context_;
  Router router_;
};

// One controller a resource; each adds its routes. `context` outlives the router.
void add_overview_routes(Router& router, Context& context);
void add_node_routes(Router& router, Context& context);
void add_health_routes(Router& router, Context& context);
void add_vhost_routes(Router& router, Context& context);
void add_exchange_routes(Router& router, Context& context);
void add_queue_routes(Router& router, Context& context);
void add_message_routes(Router& router, Context& context);
void add_delayed_routes(Router& router, Context& context);
void add_redrive_routes(Router& router, Context& context);
void add_retry_routes(Router& router, Context& context);
void add_binding_routes(Router& router, Context& context);
void add_connection_routes(Router& router, Context& context);
void add_consumer_routes(Router& router, Context& context);
void add_definition_routes(Router& router, Context& context);
void add_policy_routes(Router& router, Context& context);
void add_parameter_routes(Router& router, Context& context);
void add_user_routes(Router& router, Context& context);
void add_login_attempt_routes(Router& router, Context& context);
void add_permission_routes(Router& router, Context& context);
void add_limit_routes(Router& router, Context& context);
void add_topic_permission_routes(Router& router, Context& context);
void add_log_routes(Router& router, Context& context);
void add_metrics_routes(Router& router, Context& context, Access access);
void add_process_routes(Router& router, Context& context);
void add_compat_routes(Router& router, Context& context);
void add_openapi_routes(Router& router, Context& context);
void add_page_routes(Router& router, Context& context);

}  // namespace tarry::http
