import { readFile, writeFile } from 'node:fs/promises'
import { type MarkRequest, type Media, MediaError } from '../src/media.ts'

export const VIDEO = Buffer.from('VIDEO of a spring day')
export const IMAGE = Buffer.from('IMAGE of a spring day')

/** Marks files by writing a recipient's name before them: what is tried here is everything around it. */
export class StandIn implements Media {
  /** What happens while a copy is made; nothing goes wrong when left out. */
  onMark: (request: MarkRequest) => unknown = () => undefined
  readonly marked: string[] = []

  async probe(file: string) {
    const kind = kindOf(await readFile(file, 'utf8'))
    return { kind, width: 64, height: 48, durationMs: kind === 'video' ? 1_500 : 0, codec: 'none' }
  }

  async checkText() {}

  async thumbnail(_source: string, target: string) {
    await writeFile(target, 'small')
  }

  async mark(_kind: 'video' | 'image', request: MarkRequest) {
    const { source, target, visibleText, invisible } = request
    this.marked.push(invisible?.tokenId ?? '')
    await this.onMark(request)
    await writeFile(target, `${visibleText}|${invisible?.tokenId}|${await readFile(source, 'utf8')}`)
    const probed = await this.probe(source)
    return { ...probed, codec: probed.kind === 'video' ? 'h264' : 'png' }
  }

  async detect({ suspect, tokens }: { suspect: string; tokens: readonly string[] }) {
    const [, found] = (await readFile(suspect, 'utf8')).split('|')
    const ranking = tokens.map((tokenId) => ({ tokenId, z: tokenId === found ? 9 : 1 })).sort((a, b) => b.z - a.z)
    const verdict = (ranking[0]?.z ?? 0) > 6 ? ('match' as const) : ('inconclusive' as const)
    return { verdict, ranking, bestDecoyZ: 3.1, decoys: 1_000 }
  }
}

function kindOf(text: string): 'video' | 'image' {
  if (text.startsWith('VIDEO')) return 'video'
  if (text.startsWith('IMAGE')) return 'image'
  throw new MediaError('SOURCE_UNSUPPORTED', 'This is neither a video nor an image.', { stage: 'probe' })
}

export const outOfMemory = () =>
  new MediaError('OUT_OF_MEMORY', 'The media program was killed, most likely for lack of memory.', { stage: 'encode' })
export const corrupt = () => new MediaError('SOURCE_CORRUPT', 'The file is damaged.', { stage: 'encode' })
