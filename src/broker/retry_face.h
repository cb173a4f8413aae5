#pragma once

#include <functional>
#include <memory>
#include <string>

#include "broker/core.h"
#include "tarrymq/broker/retry_operations.h"

namespace tarry {

/// RetryOperations on the registry and the queues.
class RetryFace final : public RetryOperations {
 public:
  /// `after`: runs its work on the first shard, once what clients had sent before is where it
  /// belongs.
  RetryFace(Core& core, std::function<void(std::function<void()>)> after)
      : core_(core), after_(std::move(after)) {}

  void list_waiting(const Login& login, std::string vhost, std::string queue, WaitingQuery query,
                    Answer<WaitingPage> answer) override;
  void act_on_waiting(const Login& login, std::string vhost, std::string queue, WaitingOrder order,
                      Answer<WaitingOutcome> answer) override;
  void park(const Login& login, std::string vhost, std::string queue,
            std::vector<GivenMessage> messages, Answer<uint64_t> answer) override;
  void start_redrive(const Login& login, std::string vhost, std::string queue,
                     RedriveRequest request, Answer<RedriveStarted> answer) override;
  std::vector<RedriveInfo> redrives() override;
  std::optional<RedriveInfo> redrive(uint64_t id) override;
  void cancel_redrive(const Login& login, uint64_t id, Answer<void> answer) override;

 private:
  /// `publishing`: the right to publish through the default exchange is wanted, too.
  void with_queue(const Login& login, std::string vhost, std::string queue, bool publishing,
                  std::function<void(Result<std::shared_ptr<QueueHandle>, PeerError>)> work);
  Result<std::shared_ptr<QueueHandle>, PeerError> find(const Login& login, const std::string& vhost,
                                                       const std::string& queue, bool publishing);

  Core& core_;
  const std::function<void(std::function<void()>)> after_;
};

}  // namespace tarry
