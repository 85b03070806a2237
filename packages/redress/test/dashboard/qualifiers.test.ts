import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { doubts, suggestionsFor } from '../../dashboard/src/words/completion.ts'
import { type Filter, format, parse, STATUSES, withStatus } from '../../dashboard/src/words/qualifiers.ts'

const filterOf = (line: string): Filter => {
  const { filter, problems } = parse(line)
  expect(problems).toEqual([])
  return filter
}

/** What is wrong with a line, and the line that was probably meant. */
const complaintOn = (line: string): [string, string | null] => {
  const [problem] = parse(line).problems
  return [problem?.text ?? '', problem?.better ?? null]
}

describe('the filter line', () => {
  test('reads qualifiers, and takes other words as text', () => {
    expect(
      filterOf('status:failed code:GW_5XX type:pdf.convert queue:documents owner:ann batch:b-1 age:<1h 019a0b3f'),
    ).toEqual({
      status: 'failed',
      code: 'GW_5XX',
      type: 'pdf.convert',
      queue: 'documents',
      owner: 'ann',
      batch: 'b-1',
      since: '1h',
      q: '019a0b3f',
    })
    expect(filterOf('age:<2h age:>30m')).toEqual({ since: '2h', until: '30m' })
    expect(filterOf('  STATUS:Failed ')).toEqual({ status: 'failed' })
    expect(filterOf('')).toEqual({})
  })

  test('takes values with spaces and colons in quotation marks', () => {
    expect(filterOf('owner:"Ann Lee"')).toEqual({ owner: 'Ann Lee' })
    expect(filterOf(String.raw`owner:"the \"boss\" \\ co"`)).toEqual({ owner: String.raw`the "boss" \ co` })
    expect(filterOf('"order:42"')).toEqual({ q: 'order:42' })
    expect(filterOf('two words')).toEqual({ q: 'two words' })
  })

  test('suggests the nearest qualifier for an unknown one', () => {
    expect(complaintOn('sttus:failed x')).toEqual([
      'There is no qualifier “sttus:”. Did you mean “status:”? To look for the text itself, put it in quotation marks.',
      'status:failed x',
    ])
    expect(complaintOn('invoice:42')).toEqual([
      'There is no qualifier “invoice:”. To look for the text itself, put it in quotation marks.',
      '"invoice:42"',
    ])
    expect(complaintOn('status:faild')).toEqual([
      'No job has the status “faild”. Did you mean “failed”?',
      'status:failed',
    ])
    expect(complaintOn('status:running')[1]).toBe('status:processing')
    expect(complaintOn('status:xyzzy')).toEqual([
      'No job has the status “xyzzy”. It is one of queued, processing, complete, failed, cancelled.',
      null,
    ])
  })

  test('explains invalid ages, missing and duplicate values, and open quotation marks', () => {
    expect(complaintOn('age:1h')[1]).toBe('age:<1h')
    expect(complaintOn('age:<5min')[1]).toBe('age:<5m')
    expect(complaintOn('age:<3')[1]).toBe('age:<3h')
    expect(complaintOn('age:<soon')).toEqual([
      '“age:” does not take “<soon”. It is < or > and a duration: age:<15m, age:<2h, age:>7d.',
      null,
    ])
    expect(complaintOn('status:')[0]).toBe('“status:” has no value. It says how it stands.')
    expect(complaintOn('owner:a owner:b')).toEqual(['“owner:” is given twice, and only one is possible.', 'owner:a '])
    expect(complaintOn('owner:"Ann')).toEqual(['A quotation mark is opened and not closed.', 'owner:"Ann"'])
  })

  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 })
  const duration = fc.tuple(fc.nat(999), fc.constantFrom('ms', 's', 'm', 'h', 'd')).map(([n, unit]) => `${n}${unit}`)
  const filters = fc.record(
    {
      status: fc.constantFrom(...STATUSES),
      code: text,
      type: text,
      queue: text,
      owner: text,
      batch: text,
      since: duration,
      until: duration,
      q: text.map((q) => q.trim()).filter((q) => q !== ''),
    },
    { requiredKeys: [] },
  )

  test('any filter survives being written and read', () => {
    fc.assert(
      fc.property(filters, (filter) => {
        expect(parse(format(filter))).toEqual({ filter, problems: [] })
      }),
    )
  })

  test('any line can be read, and keeps its meaning when rewritten', () => {
    const parts = fc.constantFrom(
      'status:',
      'failed',
      'age:<',
      '1h',
      '"',
      '\\',
      ' ',
      ':',
      'owner:',
      'x',
      '<',
      '\u202e',
      '\n',
    )
    const lines = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(parts).map((some) => some.join('')),
    )
    fc.assert(
      fc.property(lines, (line) => {
        const { filter, problems } = parse(line)
        if (problems.length === 0) expect(parse(format(filter))).toEqual({ filter, problems: [] })
      }),
    )
  })

  test('applying a suggestion removes one problem', () => {
    for (const line of [
      'sttus:failed',
      'status:faild',
      'age:1h',
      'age:<5min',
      'owner:"Ann',
      'order:42',
      'invoice:1 bill:2',
    ]) {
      const { problems } = parse(line)
      expect(parse(problems[0]?.better ?? '').problems).toHaveLength(problems.length - 1)
    }
  })

  test('one qualifier can be changed without the others', () => {
    expect(withStatus({ status: 'failed', owner: 'Ann Lee', q: 'x' }, 'queued')).toBe('status:queued owner:"Ann Lee" x')
    expect(withStatus({ status: 'failed' }, null)).toBe('')
  })
})

describe('completion', () => {
  const known = { type: ['pdf.convert', 'mail.send'], code: ['GW_5XX'], owner: ['Ann Lee'] }
  const offered = (line: string, caret = line.length) => suggestionsFor(line, caret, known).map(({ text }) => text)

  test('offers qualifiers, then values of the qualifier', () => {
    expect(offered('')).toEqual(['status:', 'code:', 'type:', 'queue:', 'owner:', 'batch:', 'age:'])
    expect(offered('status:failed ')).not.toContain('status:')
    expect(offered('status:f')).toEqual(['status:failed'])
    expect(offered('type:conv')).toEqual(['type:pdf.convert'])
    expect(offered('owner:a')).toEqual(['owner:"Ann Lee"'])
    expect(offered('nothing:')).toEqual([])
    expect(offered('status:failed')).toEqual([])
  })

  test('finds a value without its qualifier', () => {
    expect(offered('gw')).toEqual(['code:GW_5XX'])
    expect(offered('fai')).toEqual(['status:failed'])
  })

  test('inserts the choice at the caret and keeps the rest', () => {
    const [first] = suggestionsFor('owner:x st type:y', 10, known)
    expect(first).toMatchObject({ line: 'owner:x status:type:y', caret: 15, isWhole: false })
    const [failed] = suggestionsFor('status:fa owner:x', 9, known)
    expect(failed).toMatchObject({ line: 'status:failed owner:x', caret: 14, isWhole: true })
  })

  test('questions an unknown value only if a known one is near', () => {
    expect(doubts({ type: 'pdf.convrt', owner: 'bob' }, known)).toEqual([
      { text: 'No type pdf.convrt is known here.', better: { type: 'pdf.convert', owner: 'bob' } },
    ])
    expect(doubts({ type: 'quite.another' }, known)).toEqual([])
    expect(doubts({ type: 'pdf.convrt' }, {})).toEqual([])
  })
})
