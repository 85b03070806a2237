import assert from 'node:assert/strict'
import type { DeadLetter } from '../../core/change.ts'
import type { Bench } from './bench.ts'
import { failed, markFailed, requeued } from './changes.ts'
import { topic } from './promise.ts'

export const deadLetters = topic('dead letters', {
  async 'a dead letter holds what a replay needs: payload, cause and attempts'(bench) {
    const { lease: first, worker } = await bench.processing({ payload: '{"n":1}' })
    await worker.close(first, requeued('retry', first))
    const lease = await worker.claimOne()
    await bench.clock.advance(10)
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }), 2)
    const [letter, ...more] = await bench.store.deadLetters({ afterOffset: 0, limit: 10 })
    const [, failure] = await bench.store.failures({ id: lease.id })
    assert.deepEqual(more, [])
    assert.deepEqual(letter, {
      ...{ offset: letter?.offset, jobId: lease.id, type: 'plain', payload: '{"n":1}' },
      ...{ failure, attempts: 2, atMs: bench.clock.nowMs() },
    })
    assert.equal((await bench.lastEvent(lease.id)).data.deadLetterOffset, letter?.offset)
    assert.equal((await bench.row(lease.id)).isDeadLettered, true)
  },

  async 'a flagged job is set aside without a letter, and others are not set aside at all'(bench) {
    const flagged = await fail(bench, 'flag')
    const ordinary = await fail(bench, 'none')
    assert.equal((await bench.row(flagged)).isDeadLettered, true)
    assert.equal((await bench.row(ordinary)).isDeadLettered, false)
    assert.deepEqual(await bench.store.deadLetters({ afterOffset: 0, limit: 10 }), [])
  },

  async 'a job that a person marked as failed is set aside, too'(bench) {
    const id = await bench.submit()
    await bench.intervene(id, markFailed(await bench.row(id), { deadLetter: 'queue' }))
    const [letter] = await bench.store.deadLetters({ afterOffset: 0, limit: 10 })
    assert.deepEqual([letter?.jobId, letter?.attempts, letter?.failure.code], [id, 0, 'MARKED_FAILED'])
  },

  async 'letters are read in order, page by page, and their offsets only grow'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await fail(bench, 'queue'))
    const read: string[] = []
    let afterOffset = 0
    for (;;) {
      const page = await bench.store.deadLetters({ afterOffset, limit: 2 })
      assert(page.length <= 2)
      const last = page.at(-1)
      if (last === undefined) break
      assert(page.every(({ offset }) => offset > afterOffset))
      read.push(...page.map(({ jobId }) => jobId))
      afterOffset = last.offset
    }
    assert.deepEqual(read, ids)
  },
})

async function fail(bench: Bench, deadLetter: DeadLetter): Promise<string> {
  const { id, lease, worker } = await bench.processing()
  await worker.close(lease, failed(lease, { deadLetter }))
  return id
}
