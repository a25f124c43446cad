"""Wake-ups inside one process: listeners hear everything, waiters what they wait for, once."""

from __future__ import annotations

import trio

from trisched.storage.wakeup import DUE, EVERYTHING, Wakeups, queue_of, queue_topic, run_topic


def test_listeners_hear_every_topic_while_they_listen() -> None:
    wakeups, first, second = Wakeups(), list[str](), list[str]()
    with wakeups.listening(first.append):
        with wakeups.listening(second.append):
            wakeups.publish([DUE, queue_topic("a")])
        wakeups.publish([DUE])
    wakeups.publish([DUE])
    assert first == [DUE, "queue:a", DUE]
    assert second == [DUE, "queue:a"]


def test_a_waiter_is_woken_by_its_own_topic() -> None:
    wakeups = Wakeups()
    with wakeups.waiting(run_topic("r1")) as mine, wakeups.waiting(run_topic("r2")) as other:
        wakeups.publish([run_topic("r1"), DUE])
        assert mine.is_set()
        assert not other.is_set()


def test_all_who_wait_for_a_topic_are_woken() -> None:
    wakeups = Wakeups()
    with wakeups.waiting("x") as first, wakeups.waiting("x") as second:
        wakeups.publish(["x"])
        assert first.is_set()
        assert second.is_set()


def test_everybody_is_woken_when_anything_may_have_changed() -> None:
    wakeups, heard = Wakeups(), list[str]()
    with wakeups.listening(heard.append), wakeups.waiting("x") as first, wakeups.waiting("y") as second:
        wakeups.publish([EVERYTHING])
        assert first.is_set()
        assert second.is_set()
        assert not wakeups.has_waiters()
    assert heard == [EVERYTHING]


def test_who_stopped_waiting_is_forgotten() -> None:
    wakeups = Wakeups()
    assert not wakeups.has_waiters()
    with wakeups.waiting("x") as event:
        assert wakeups.has_waiters()
        with wakeups.waiting("x"):
            pass
        assert wakeups.has_waiters(), "another still waits"
    assert not wakeups.has_waiters()
    wakeups.publish(["x"])
    assert not event.is_set()


def test_waiting_may_end_after_the_topic_was_published_and_waited_for_anew() -> None:
    wakeups = Wakeups()
    with wakeups.waiting("x") as first:
        wakeups.publish(["x"])
        assert first.is_set()
        with wakeups.waiting("x") as second:
            wakeups.publish(["x"])
            assert second.is_set()
    assert not wakeups.has_waiters()


async def test_a_wake_up_between_looking_and_waiting_is_not_lost() -> None:
    wakeups = Wakeups()
    with wakeups.waiting("x") as event:
        wakeups.publish(["x"])
        with trio.fail_after(5):
            await event.wait()


def test_topics_of_queues_name_them() -> None:
    for queue in ("default", "a:b", "", "queue:"):
        assert queue_of(queue_topic(queue)) == queue
    assert queue_of(DUE) is None
    assert queue_of(run_topic("queue")) is None
