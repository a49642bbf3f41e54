"""Trials of some points of a task's space, by their indices."""

from autotune.measure import MeasureInput, Pipeline


def inputs_of(task, indices):
    return [MeasureInput(task.target, task, task.config_space.get(int(i))) for i in indices]


def drained(pipeline):
    """Return the pairs of all trials that are under way, in the order of their submission."""
    pairs = []
    while pipeline.outstanding:
        pairs += pipeline.next_results()
    return pairs


def results_of(pipeline):
    return [result for _, result in drained(pipeline)]


def measured(task, option, indices):
    """Return the results of trials by index; no more of them are under way than there is room."""
    results = {}
    todo = inputs_of(task, indices)
    with Pipeline(task, option) as pipeline:
        while todo or pipeline.outstanding:
            room = pipeline.room()
            pipeline.submit(todo[:room])
            todo = todo[room:]
            for measure_input, result in pipeline.next_results():
                results[measure_input.config.index] = result
    return results
