import { link, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { synced } from '@redress/shared/durable-files'
import { errnoOf } from '../paths.ts'
import type { Clip } from './plan.ts'

/** File systems without hard links: those of memory cards, and of some servers. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']

/**
 * Gives all outputs of a job their names, or none of them. What is there already is never overwritten, whoever made it
 * at whatever moment: a link, unlike a rename, cannot replace anything.
 */
export async function deliverAll(clips: readonly Clip[], before: (clip: Clip) => Promise<void>): Promise<void> {
  const undo: { target: string; take(): Promise<void> }[] = []
  const linked: string[] = []
  try {
    for (const clip of clips) {
      await before(clip)
      await synced(clip.partial)
      const { partial, target } = clip
      if (await nameOne(clip)) {
        linked.push(partial)
        undo.push({ target, take: () => unlink(target) })
      } else undo.push({ target, take: () => rename(target, partial) })
    }
  } catch (error) {
    // Half a delivery would look like a whole one: all are parts again, or it is said which are not.
    const left: string[] = []
    for (const { target, take } of undo) {
      await take().catch((why: unknown) => left.push(`${target} could not be taken back (${errnoOf(why)})`))
    }
    if (error instanceof Error) error.message = [error.message, ...left].join('; ')
    throw error
  }
  for (const partial of linked) await unlink(partial)
  for (const folder of new Set(clips.map(({ target }) => dirname(target)))) await synced(folder)
}

/** False when the part was moved, and not linked. */
async function nameOne({ partial, target }: Clip): Promise<boolean> {
  try {
    await link(partial, target)
    return true
  } catch (error) {
    if (!NO_LINKS.includes(errnoOf(error))) throw error
  }
  // The empty file is ours alone, so that what the move replaces is nobody's.
  await (await open(target, 'wx')).close()
  if ((await stat(target)).size !== 0) throw new Error(`${target} was written by somebody else`)
  await rename(partial, target)
  return false
}
