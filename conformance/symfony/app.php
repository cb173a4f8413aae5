<?php
// An application of Symfony Messenger over AMQP, from Debian's packages, without the framework around it: its own worker
// command, retry strategy and failure transport. What its handler did goes to the file $LEDGER, a line "NAME RETRY TIME".
//   app.php messenger:consume async ...     the worker
//   app.php send NAME FAILURES DELAY_MS     a message whose handler throws FAILURES times
foreach (['Psr/Log', 'Psr/Container', 'Symfony/Component/EventDispatcher', 'Symfony/Component/Console',
          'Symfony/Component/Messenger'] as $package) {
    require_once $package.'/autoload.php';
}

use Symfony\Component\Console\Application;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Command\ConsumeMessagesCommand;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnSigtermSignalListener;
use Symfony\Component\Messenger\Handler\HandlerDescriptor;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\RoutableMessageBus;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

final class Order
{
    public function __construct(public string $name, public int $failures)
    {
    }
}

final class Box implements Psr\Container\ContainerInterface
{
    public function __construct(private array $things)
    {
    }

    public function get(string $id)
    {
        return $this->things[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->things[$id]);
    }
}

/** Notes each delivery, and throws for the handler while the message wants it. */
final class Ledger implements MiddlewareInterface
{
    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $order = $envelope->getMessage();
        $retry = RedeliveryStamp::getRetryCountFromEnvelope($envelope);
        file_put_contents(getenv('LEDGER'), sprintf("%s %d %.6F\n", $order->name, $retry, microtime(true)), \FILE_APPEND);
        if ($retry < $order->failures) {
            throw new RuntimeException('not today');
        }

        return $stack->next()->handle($envelope, $stack);
    }
}

$factory = new AmqpTransportFactory();
$transport = fn (string $exchange, array $options) => $factory->createTransport(
    getenv('AMQP_DSN').'/'.$exchange, ['confirm_timeout' => 20] + $options, new PhpSerializer());
$async = $transport('orders', ['queues' => ['orders' => []]]);
$failed = $transport('failed', ['queues' => ['failed' => []]]);
// Retried by the broker: without a strategy of Symfony's a failed message is rejected, and goes to the dead letters.
$plain = $transport('plain', ['queues' => ['plain' => ['arguments' => ['x-dead-letter-exchange' => 'failed']]]]);
$transports = new Box(['async' => $async, 'failed' => $failed, 'plain' => $plain]);

// First delay 200 ms, doubled each time, three retries.
$strategies = new Box(['async' => new MultiplierRetryStrategy(3, 200, 2)]);
$dispatcher = new EventDispatcher();
$dispatcher->addSubscriber(new SendFailedMessageForRetryListener($transports, $strategies, null, $dispatcher));
$dispatcher->addSubscriber(new SendFailedMessageToFailureTransportListener(new Box(['async' => $failed])));
$dispatcher->addSubscriber(new StopWorkerOnSigtermSignalListener());

$bus = new MessageBus([new Ledger(), new HandleMessageMiddleware(new HandlersLocator(
    [Order::class => [new HandlerDescriptor(fn (Order $order) => null)]]))]);
$application = new Application();
$application->add(new ConsumeMessagesCommand(
    new RoutableMessageBus(new Box(['bus' => $bus]), $bus), $transports, $dispatcher, null, ['async', 'plain']));
$application->add(new class($transports) extends Command {
    public function __construct(private Box $transports)
    {
        parent::__construct('send');
    }

    protected function configure(): void
    {
        foreach (['transport', 'name', 'failures', 'delay'] as $argument) {
            $this->addArgument($argument, InputArgument::REQUIRED);
        }
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $stamps = $input->getArgument('delay') > 0 ? [new DelayStamp((int) $input->getArgument('delay'))] : [];
        $this->transports->get($input->getArgument('transport'))->send(new Envelope(
            new Order($input->getArgument('name'), (int) $input->getArgument('failures')), $stamps));

        return 0;
    }
});
$application->add(new class($transports) extends Command {
    public function __construct(private Box $transports)
    {
        parent::__construct('setup');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        foreach (['async', 'failed', 'plain'] as $name) {
            $this->transports->get($name)->setup();
        }

        return 0;
    }
});
exit($application->run());
