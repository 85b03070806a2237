import { expect, test } from 'vitest'
import { SharedSteps } from '../../src/artifacts/folder/place.ts'

/** Steps that end when they are told to. */
function heldSteps() {
  const begun: { name: string; end: () => void; fail: (error: Error) => void }[] = []
  const steps = new SharedSteps(
    (name) =>
      new Promise<number>(
        (resolve, reject) => void begun.push({ name, end: () => resolve(begun.length), fail: reject }),
      ),
  )
  return { begun, steps }
}

test('a caller during a step waits for the next one, and all waiting callers share it', async () => {
  const { begun, steps } = heldSteps()
  const first = steps.run('a')
  const later = [steps.run('a'), steps.run('a'), steps.run('a')]
  expect(begun).toHaveLength(1)
  begun[0]?.end()
  expect(await first).toBe(1)
  expect(begun).toHaveLength(2)
  const last = steps.run('a')
  begun[1]?.end()
  expect(await Promise.all(later)).toEqual([2, 2, 2])
  expect(begun).toHaveLength(3)
  begun[2]?.end()
  expect(await last).toBe(3)
})

test('without a waiting caller the next step begins at once; different names do not wait for each other', async () => {
  const { begun, steps } = heldSteps()
  const [a, b] = [steps.run('a'), steps.run('b')]
  expect(begun.map(({ name }) => name)).toEqual(['a', 'b'])
  for (const { end } of begun) end()
  await Promise.all([a, b])
  void steps.run('a')
  expect(begun.map(({ name }) => name)).toEqual(['a', 'b', 'a'])
})

test('a failure reaches all callers that shared the step, and none of the next one', async () => {
  const { begun, steps } = heldSteps()
  const first = steps.run('a')
  const next = steps.run('a')
  const failed = expect(first).rejects.toThrow('the disk is gone')
  begun[0]?.fail(new Error('the disk is gone'))
  await failed
  begun[1]?.end()
  expect(await next).toBe(2)
})
