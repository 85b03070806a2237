import { expect, test } from 'vitest'
import { nextTurn, OnePerTurn } from '../../src/app/events/hub.ts'
import { Slices } from '../../src/store/sqlite/connection/slices.ts'

/** Counts the turns of the event loop until it is stopped. */
function countTurns() {
  let turn = 0
  let isOver = false
  const next = (): void => {
    turn++
    if (!isOver) setImmediate(next)
  }
  setImmediate(next)
  return {
    turn: () => turn,
    stop: () => {
      isOver = true
    },
  }
}

/** As the embedded store reads: at once where it may, else in a later turn. */
const reading = <T>(slices: Slices, task: () => T): Promise<T> | T => (slices.isSpent ? slices.later(task) : task())

test('tasks over the slice of a turn wait for later turns, and keep their order', async () => {
  const slices = new Slices(0)
  const turns = countTurns()
  const ran: [task: number, turn: number][] = []
  await Promise.all(Array.from({ length: 5 }, (_, n) => reading(slices, () => ran.push([n, turns.turn()]))))
  turns.stop()
  expect(ran.map(([task]) => task)).toEqual([0, 1, 2, 3, 4])
  expect(new Set(ran.map(([, turn]) => turn)).size).toBe(5)
})

test('tasks within the slice run at once', () => {
  const slices = new Slices(60_000)
  expect(Array.from({ length: 1_000 }, (_, n) => reading(slices, () => n))).toEqual(
    Array.from({ length: 1_000 }, (_, n) => n),
  )
})

test('a loop of tasks lets the event loop turn, however many callers there are', async () => {
  const slices = new Slices(0)
  let hasTurned = false
  setImmediate(() => {
    hasTurned = true
  })
  const loop = async (): Promise<number> => {
    let rounds = 0
    while (!hasTurned && rounds < 100_000) {
      await reading(slices, () => undefined)
      rounds++
    }
    return rounds
  }
  await Promise.all(Array.from({ length: 10 }, loop))
  expect(hasTurned).toBe(true)
})

test('a task that waited and throws harms no other', async () => {
  const slices = new Slices(0)
  void slices.isSpent
  const answers = await Promise.allSettled([
    slices.later(() => 1),
    slices.later(() => {
      throw new Error('a mistake')
    }),
    slices.later(() => 3),
  ])
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

test('tasks that take turns run one by one, each in a turn of its own', async () => {
  const inTurn = new OnePerTurn()
  const turns = countTurns()
  let running = 0
  const ran: number[] = []
  const task = async (): Promise<void> => {
    expect(++running).toBe(1)
    ran.push(turns.turn())
    await nextTurn()
    running--
  }
  const failing = inTurn.run(() => Promise.reject(new Error('a mistake')))
  const done = Array.from({ length: 5 }, () => inTurn.run(task))
  await expect(failing).rejects.toThrow('a mistake')
  await Promise.all(done)
  turns.stop()
  expect(new Set(ran).size).toBe(5)
})
