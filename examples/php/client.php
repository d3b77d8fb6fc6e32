<?php
// Locks from PHP, which keeps no connection open between requests: it asks, and asks
// again. To ask again keeps the place in the queue.
declare(strict_types=1);

/** The JSON interface over curl. Connections are reused as long as this lives. */
final class Client
{
    private CurlHandle $curl;

    public function __construct(private string $web, string $ca)
    {
        $this->curl = curl_init();
        curl_setopt_array($this->curl, [
            CURLOPT_CAINFO => $ca,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 10,
            CURLOPT_HTTPHEADER => ['Content-Type: application/json'],
        ]);
    }

    /** Calls an RPC; an outcome (OK, QUEUED, …) is returned, a refusal thrown. */
    public function call(string $rpc, array $fields): array
    {
        curl_setopt($this->curl, CURLOPT_URL, "$this->web/v1/$rpc");
        curl_setopt($this->curl, CURLOPT_POSTFIELDS, json_encode((object) $fields, JSON_THROW_ON_ERROR));
        $body = curl_exec($this->curl);
        if ($body === false) {
            throw new RuntimeException(curl_error($this->curl));
        }
        $answer = json_decode($body, true, 64, JSON_THROW_ON_ERROR);
        if (isset($answer['error'])) {
            throw new RuntimeException("{$answer['error']['code']}: {$answer['error']['message']}");
        }
        return $answer;
    }
}

function expect(string $what, mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        fwrite(STDERR, "$what: got " . json_encode($got) . ', wanted ' . json_encode($wanted) . "\n");
        exit(1);
    }
    echo "$what: " . json_encode($got) . "\n";
}

$client = new Client(
    getenv('PATHLOCKD_WEB') ?: 'https://127.0.0.1:50443',
    getenv('PATHLOCKD_CA') ?: 'pathlockd-data/dev-cert.pem',
);
$run = bin2hex(random_bytes(4));
$path = "example:/php/$run";
$ask = fn (string $owner): array => $client->call('acquire', [
    'ownerId' => "$owner-$run", 'ttlMs' => 10_000, 'requests' => [['path' => $path]],
]);
$release = fn (string $owner): array => $client->call('release', [
    'ownerId' => "$owner-$run", 'requests' => [['path' => $path]],
]);

expect('alice asks', $ask('alice')['status'], 'ACQUIRE_STATUS_OK');
$answer = $ask('bob');
expect('bob asks', $answer['status'], 'ACQUIRE_STATUS_QUEUED');
expect("who is in bob's way", $answer['owner'], "alice-$run");

$release('alice');
$giveUp = microtime(true) + 10;
while (($answer = $ask('bob'))['status'] === 'ACQUIRE_STATUS_QUEUED' && microtime(true) < $giveUp) {
    usleep(100_000);
}
expect('bob asks again', $answer['status'], 'ACQUIRE_STATUS_OK');
expect('he has a token', (int) $answer['fencingToken'] > 0, true);

$release('bob');
expect('who holds it now', $client->call('inspectPath', ['path' => $path])['writeOwner'], '');
