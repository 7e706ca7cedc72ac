"""Batches that a gateway makes of large frames are, byte for byte, those that Kafka's client would make."""

import numpy as np
import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.util import calc_crc32c

from hubbub.kafka.patches.single_record_batch import SingleRecordBatch
from oracles.kernels import batches, c_library

sums = pytest.mark.skipif(not batches.can_sum(), reason="the kernels are not compiled here, or HUBBUB_KERNELS says so")


@sums
def test_a_checksum_is_that_of_kafkas_client_at_any_length_and_address():
    data = np.random.default_rng(1).integers(0, 256, 5_000, np.uint8).tobytes()
    for start in range(9):
        for size in (*range(40), 1_000, 4_990):
            assert batches.crc32c(memoryview(data)[start : start + size]) == calc_crc32c(data[start : start + size])


def test_without_kernels_kafkas_client_makes_the_batches():
    with c_library.numpy_alone():
        assert not batches.can_sum()


@sums
@pytest.mark.parametrize("producer", [None, (1 << 40, 7, 12_345)])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 8_190, 16 << 10, 1 << 20, (1 << 20) + 1])
def test_a_batch_has_the_bytes_of_kafkas_client(size, producer):
    value = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    moment = 1_700_000_000_000
    own_batch = SingleRecordBatch(value, moment)
    reference = BatchBuilder(1 << 14, 0)
    assert reference.append(timestamp=moment, key=None, value=value)
    assert own_batch.append(timestamp=moment, key=None, value=value) is None
    if producer:
        for batch in (own_batch, reference):
            batch._set_producer_state(*producer)
    assert own_batch._build() == reference._build()
    assert own_batch._build() is own_batch._build()
    assert own_batch.size() == reference.size()
    assert own_batch.record_count() == 1
    assert own_batch.closed() is True
