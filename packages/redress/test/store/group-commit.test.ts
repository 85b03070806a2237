import type { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { GroupCommit } from '../../src/store/sqlite/connection/group-commit.ts'

const busy = Object.assign(new Error('database is locked'), { errcode: 5 })

/** A database that only keeps count of transactions, and whose lock is taken by others at the given moments. */
function fakeDatabase(isTakenAtBegin: (nth: number) => boolean) {
  const said: string[] = []
  let begins = 0
  const database = {
    isTransaction: false,
    exec(sql: string) {
      if (sql === 'BEGIN IMMEDIATE') {
        if (isTakenAtBegin(++begins)) throw busy
        database.isTransaction = true
      } else database.isTransaction = false
      said.push(sql)
    },
  }
  return { said, database: database as unknown as DatabaseSync }
}

test('a good call beside a bad one is not refused because another process came in between', async () => {
  // The first BEGIN is the group's, the second the bad call's own, the third the good one's.
  const { database, said } = fakeDatabase((nth) => nth === 3)
  const commits = new GroupCommit(database, 1_000, () => undefined)
  const bad = commits.write('failing', () => {
    throw new Error('no')
  })
  const good = commits.write('writing', () => 'written')
  await expect(bad).rejects.toMatchObject({ code: 'STORE_FAILED' })
  await expect(good).resolves.toBe('written')
  expect(said).toEqual([
    ...['BEGIN IMMEDIATE', 'ROLLBACK', 'BEGIN IMMEDIATE', 'ROLLBACK'],
    ...['BEGIN IMMEDIATE', 'COMMIT'],
  ])
})

test('stopping waits for calls that wait for another process', async () => {
  const { database } = fakeDatabase((nth) => nth < 4)
  const commits = new GroupCommit(database, 1_000, () => undefined)
  const written = commits.write('writing', () => 'written')
  await commits.stop()
  await expect(written).resolves.toBe('written')
  await expect(commits.write('writing', () => 'late')).rejects.toMatchObject({ code: 'STORE_STOPPED' })
})
