"""What is printed of weir in a cluster next to a SKIP LOCKED queue of the same database."""

import statistics

import cluster
from report import Targets, number, shape_name

# Jobs under way on each connection: the ratio to the queue that is wanted at 64 connections.
GOALS = {(64, 1): 10, (64, 32): 5}


def ratios(results, key, work, shape):
    """To the queue in the same round, which is its neighbour in time."""
    queue = {s["round"]: s["ops"] / s["seconds"]
             for s in results.of("cluster-queue", work, shape)}
    return [s["ops"] / s["seconds"] / queue[s["round"]]
            for s in results.of("cluster-" + key, work, shape) if queue.get(s["round"])]


def print_shape(results, work, shape):
    for key, title, _ in cluster.CONTENDERS:
        rates = results.rates("cluster-" + key, work, shape)
        if not rates:
            continue
        found = ratios(results, key, work, shape) if key != "queue" else []
        cpu = results.per_job("cluster-" + key, work, shape, "server_us") if key != "queue" else None
        gen = results.per_job("cluster-" + key, work, shape, "generator_us")
        line = (f"  {shape_name(shape):20} {title:22} {statistics.median(rates):9,.0f}  "
                f"{min(rates):8,.0f} - {max(rates):8,.0f}  {number(cpu):>7}  {number(gen):>6}")
        if found:
            line += (f"  {statistics.median(found):6.1f}x  ({min(found):.1f} - {max(found):.1f})")
        print(line)


def print_target(results, bed, shape):
    work, goal = "cluster-" + bed.key, GOALS[shape]
    found = ratios(results, "weir", work, shape)
    form = "one by one" if shape[1] == 1 else f"in batches of {shape[1]}"
    title = f"{bed.title}, {shape[0]} connections {form}, at least {goal}x SKIP LOCKED"
    if not found:
        Targets(results).line(title, None, goal, "")
        return
    ratio = statistics.median(found)
    text = (f"{results.rate('cluster-weir', work, shape):,.0f} to "
            f"{results.rate('cluster-queue', work, shape):,.0f} a second, {ratio:.1f}x in the same "
            f"round (rounds {min(found):.1f} - {max(found):.1f})")
    Targets(results).line(title, ratio, goal, text)


def print_cluster(results):
    beds = [b for b in cluster.BEDS if any(s["work"] == "cluster-" + b.key
                                           for s in results.samples)]
    for bed in beds:
        print(f"\na leader and a follower over {bed.title}, full cycle, next to SKIP LOCKED there\n"
              f"  {'':20} {'':22} {'jobs/s':>9}  {'min - max':>19}  {'CPU us':>7}  {'gen us':>6}  "
              "to SKIP LOCKED, in the same round")
        for shape in cluster.SHAPES:
            print_shape(results, "cluster-" + bed.key, shape)
    if beds:
        print()
    for bed in beds:
        for shape in GOALS:
            print_target(results, bed, shape)
