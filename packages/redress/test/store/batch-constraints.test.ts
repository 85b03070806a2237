import { beforeEach, describe, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../src/store/sqlite/connection/connection.ts'

let connection: Connection
const set = (assignments: string) => connection.prepare(`UPDATE batches SET ${assignments}`).run()

beforeEach(() => {
  connection = openConnection(':memory:')
  connection.database.exec(`
    INSERT INTO batches (id, name, state, sealed, total, unfinished, complete, failed, data, created_at)
    VALUES ('b', 'spring', 'open', 1, 3, 1, 1, 1, '{}', 0)`)
})

describe('the database itself refuses', () => {
  test.each([
    ['counts that do not sum', 'complete = complete + 1'],
    ['a total of its own', 'total = total + 1'],
    ['a count below nothing', 'unfinished = unfinished + 2, failed = failed - 2'],
    ['more permanent failures than failures', 'permanent = 2'],
  ])('%s', (_, assignments) => expect(() => set(assignments)).toThrow('the_counts_sum'))

  test.each([
    ['a settled batch with an unfinished job', `state = 'partial', settled_at = 1`],
    ['a settled batch without a time', `unfinished = 0, complete = 2, state = 'partial'`],
  ])('%s', (_, assignments) => expect(() => set(assignments)).toThrow('settled_means_finished'))

  test('nothing that makes sense', () => {
    set('unfinished = 0, complete = 2')
    set(`state = 'partial', settled_at = 1`)
    set(`state = 'expired'`)
    set('unfinished = 1, failed = 0')
  })
})
