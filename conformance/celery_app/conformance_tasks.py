"""Tasks of celery_worker.py. What they did goes to the file $LEDGER, a line "NAME TIME" each time."""
import os
import signal
import time

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

app = Celery("conformance", broker=os.environ["AMQP_URL"], backend="rpc://")
dead = Exchange("conformance.dead", "fanout", durable=True)
app.conf.update(
    task_queues=[
        Queue("conformance.tasks", Exchange("conformance"), routing_key="tasks"),
        Queue("conformance.priority", Exchange("conformance"), routing_key="priority",
              queue_arguments={"x-max-priority": 10}),
        Queue("conformance.rejects", Exchange("conformance"), routing_key="rejects",
              queue_arguments={"x-dead-letter-exchange": "conformance.dead"}),
        # The broker's own retries: a task that rejects with requeue comes back later each time.
        Queue("conformance.retries", Exchange("conformance"), routing_key="retries",
              queue_arguments={"x-delayed-retry-min": 100, "x-delayed-retry-multiplier": 2, "x-delivery-limit": 2,
                               "x-dead-letter-exchange": "conformance.dead"}),
    ],
    task_default_queue="conformance.tasks", task_default_exchange="conformance", task_default_routing_key="tasks",
    task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1,
    broker_connection_retry=True, broker_connection_max_retries=None, broker_heartbeat=10,
    broker_transport_options={"confirm_publish": True},
    result_expires=600,
)


def note(name):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write("%s %.6f\n" % (name, time.time()))


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=5)
def fails_first(self, name, failures, countdown):
    note(name)
    if self.request.retries < failures:
        raise self.retry(countdown=countdown)
    return self.request.retries


@app.task(bind=True, autoretry_for=(KeyError,), retry_backoff=False, default_retry_delay=0.05, max_retries=2)
def always_fails(self, name):
    note(name)
    raise KeyError(name)


@app.task
def noted(name):
    note(name)
    return name


@app.task(bind=True)
def dies_first(self, name):
    note(name)
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "second life"


@app.task
def rejects(name, requeue):
    note(name)
    raise Reject("no", requeue=requeue)
