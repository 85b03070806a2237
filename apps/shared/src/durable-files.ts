import { randomUUID } from 'node:crypto'
import { open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** What is written of a file, or which names a folder has, outlives the power from now on. */
export async function synced(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A text under its name, whole or not at all, also when the power goes: readers see the old one or the new one. */
export async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `.${randomUUID()}`)
  const file = await open(temporary, 'wx', 0o644)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}
