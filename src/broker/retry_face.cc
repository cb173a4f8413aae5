#include "broker/retry_face.h"

#include "broker/desk.h"
#include "broker/holding.h"
#include "broker/redrives.h"
#include "broker/success.h"
#include "broker/vhost_face.h"
#include "broker/wording.h"
#include "tarrymq/retry/retry_arguments.h"

namespace tarry {

Result<std::shared_ptr<QueueHandle>, PeerError> RetryFace::find(const Login& login,
                                                                const std::string& vhost_name,
                                                                const std::string& queue,
                                                                bool publishing) {
  std::shared_ptr<Vhost> vhost;
  {
    std::shared_lock lock(core_.registry.mutex);
    vhost = core_.registry.find_vhost(vhost_name);
    if (!vhost) return PeerError::not_found("no vhost '" + vhost_name + "'");
    if (publishing) {
      if (auto right = Core::check_right(*vhost, &login, Right::write, "exchange", ""); !right)
        return right.error();
    }
  }
  if (is_holding_name(queue) &&
      !publishing) {  // what waits for an x-delay: no client's, but an operator's to see
    std::shared_lock lock(core_.registry.mutex);
    if (auto right = Core::check_right(*vhost, &login, Right::read, "queue", queue); !right)
      return right.error();
    if (auto entry = vhost->find_queue(queue)) return entry->handle;
    return no_queue(queue, vhost_name);
  }
  return core_.face(vhost)->open_queue({&login, ConnectionId{}, core_.desks[0]->me()}, queue);
}

void RetryFace::with_queue(
    const Login& login, std::string vhost, std::string queue, bool publishing,
    std::function<void(Result<std::shared_ptr<QueueHandle>, PeerError>)> work) {
  after_([this, login, vhost = std::move(vhost), queue = std::move(queue), publishing,
          work = std::move(work)] { work(find(login, vhost, queue, publishing)); });
}

void RetryFace::list_waiting(const Login& login, std::string vhost, std::string queue,
                             WaitingQuery query, Answer<WaitingPage> answer) {
  with_queue(login, std::move(vhost), std::move(queue), false,
             [query, answer = std::move(answer)](auto found) {
               if (!found) return answer(found.error());
               (*found)->list_waiting(query, [answer, keep = *found](WaitingPage page) {
                 if (page.error)
                   answer(*page.error);
                 else
                   answer(std::move(page));
               });
             });
}

void RetryFace::act_on_waiting(const Login& login, std::string vhost, std::string queue,
                               WaitingOrder order, Answer<WaitingOutcome> answer) {
  with_queue(login, std::move(vhost), std::move(queue), false,
             [order = std::move(order), answer = std::move(answer)](auto found) {
               if (!found) return answer(found.error());
               (*found)->act_on_waiting(order, [answer, keep = *found](WaitingOutcome outcome) {
                 if (outcome.error)
                   answer(*outcome.error);
                 else
                   answer(std::move(outcome));
               });
             });
}

void RetryFace::park(const Login& login, std::string vhost, std::string queue,
                     std::vector<GivenMessage> messages, Answer<uint64_t> answer) {
  with_queue(
      login, std::move(vhost), std::move(queue), true,
      [core = &core_, messages = std::move(messages), answer = std::move(answer)](auto found) {
        if (!found) return answer(found.error());
        for (const GivenMessage& message : messages) {
          if (auto error = core->too_large(message.header, message.body))
            return answer(std::move(*error));
        }
        (*found)->park_given(messages, [answer, keep = *found](WaitingOutcome outcome) {
          if (outcome.error)
            answer(*outcome.error);
          else
            answer(success(outcome.affected));
        });
      });
}

void RetryFace::start_redrive(const Login& login, std::string vhost, std::string queue,
                              RedriveRequest request, Answer<RedriveStarted> answer) {
  if (is_companion_name(queue) || is_holding_name(queue)) {
    return answer(bad_request(
        queue_named(queue, vhost) + " holds what waits for its time, and no dead letters: POST " +
        "delayed/redeliver " + (is_companion_name(queue) ? "of its owner" : "there") +
        " lets it go now"));
  }
  if (is_companion_name(request.target)) {
    return answer(bad_request("'target': " + internal_queue(request.target, vhost).text));
  }
  if (request.target == queue) {
    return answer(bad_request("'target': queue '" + queue +
                              "' is where the messages are; name another queue, or \"origin\""));
  }
  with_queue(login, std::move(vhost), std::move(queue), true,
             [this, request = std::move(request), answer = std::move(answer)](auto found) {
               if (!found) return answer(found.error());
               core_.redrives->start(*found, request, answer);
             });
}

std::vector<RedriveInfo> RetryFace::redrives() { return core_.redrives->list(); }

std::optional<RedriveInfo> RetryFace::redrive(uint64_t id) { return core_.redrives->find(id); }

void RetryFace::cancel_redrive(const Login& login, uint64_t id, Answer<void> answer) {
  auto info = core_.redrives->find(id);
  if (!info) return answer(PeerError::not_found("no redrive " + std::to_string(id)));
  auto found = find(login, info->vhost, info->queue, true);
  if (!found && found.error().code != 404) return answer(found.error());
  core_.redrives->cancel(id);
  answer({});
}

}  // namespace tarry
