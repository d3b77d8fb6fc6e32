"""gRPC from Python: acquire, events, a call that waits. The .proto is loaded as it is."""

import os
import pathlib
import sys
import uuid

import grpc

# grpcio-tools compiles the .proto when the program starts: there is no generated code
# to keep. Programs that ship without the .proto generate it (docs/grpc.md).
PROTO = pathlib.Path(__file__).parents[2] / "compat" / "proto"
sys.path.insert(0, str(PROTO))
pb, services = grpc.protos_and_services("pathlockd/v1/pathlock.proto")

RUN = uuid.uuid4().hex[:8]
PATH = f"example:/python-grpc/{RUN}"
TIMEOUT = 10  # seconds that a call may take


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: got {got!r}, wanted {wanted!r}")
    print(f"{what}: {got}")


def ask(owner, **more):
    return pb.AcquireRequest(owner_id=f"{owner}-{RUN}", ttl_ms=10_000, requests=[pb.LockRequest(path=PATH)], **more)


def give_back(locks, owner):
    mine = pb.ReleaseRequest(path=PATH)
    locks.Release(pb.ReleaseLocksRequest(owner_id=f"{owner}-{RUN}", requests=[mine]), timeout=TIMEOUT)


def status(answer):
    return pb.AcquireStatus.Name(answer.status)


def main(channel):
    locks = services.PathLockStub(channel)

    answer = locks.Acquire(ask("alice"), timeout=TIMEOUT)
    expect("alice asks", status(answer), "ACQUIRE_STATUS_OK")

    # Once the headers are here the subscription is live: nothing is missed from now on.
    events = locks.Subscribe(pb.SubscribeRequest(owner_id=f"bob-{RUN}"), timeout=TIMEOUT)
    events.initial_metadata()
    queued = locks.Acquire(ask("bob"), timeout=TIMEOUT)
    expect("bob asks", status(queued), "ACQUIRE_STATUS_QUEUED")
    expect("who is in bob's way", queued.owner, f"alice-{RUN}")

    give_back(locks, "alice")
    event = next(events)
    expect("bob is told", pb.EventType.Name(event.type), "EVENT_TYPE_GRANT")
    expect("  of which path", event.path, PATH)
    answer = locks.Acquire(ask("bob"), timeout=TIMEOUT)
    expect("bob asks again", status(answer), "ACQUIRE_STATUS_OK")
    expect("  the token of the event", answer.fencing_token, event.fencing_token)
    events.cancel()

    # AcquireWait is answered when its time has come; AcquireWatch also says where it
    # stands until then. To end the call is to leave the queue.
    watch = locks.AcquireWatch(ask("carol"), timeout=TIMEOUT)
    place = next(watch)
    expect("carol waits", (status(place), place.position), ("ACQUIRE_STATUS_QUEUED", 1))
    waiting = locks.AcquireWait.future(ask("dave"), timeout=TIMEOUT)
    give_back(locks, "bob")
    expect("bob lets go, carol has it", status(next(watch)), "ACQUIRE_STATUS_OK")
    give_back(locks, "carol")
    expect("carol lets go, dave has it", status(waiting.result()), "ACQUIRE_STATUS_OK")
    give_back(locks, "dave")

    # What breaks a rule is a gRPC error, and has changed nothing.
    try:
        locks.Acquire(pb.AcquireRequest(owner_id="", ttl_ms=1), timeout=TIMEOUT)
        raise SystemExit("a request without an owner was taken")
    except grpc.RpcError as refused:
        expect("no owner", refused.code(), grpc.StatusCode.INVALID_ARGUMENT)
        print("  " + refused.details())


if __name__ == "__main__":
    with grpc.insecure_channel(
        os.environ.get("PATHLOCKD_GRPC", "127.0.0.1:50051"),
        options=[("grpc.keepalive_time_ms", 30_000)],
    ) as open_channel:
        main(open_channel)
