import { constants } from 'node:fs'
import { access, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'

export interface VisibleText {
  text: string
  fontFile: string
}

const GRAPHEMES_MAX = 80
const TEXT_FILE = 'text'
const FONT_FILE = 'font'

/**
 * One line without control sequences: controls and line ends become spaces. Marks that change the direction of
 * writing are removed, because they can make one name look like another.
 */
export const plainLine = (text: string): string =>
  text
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, '')
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()

/** As much of it as a picture has room for. */
export function cleanText(text: string): string {
  const graphemes = Array.from(new Intl.Segmenter().segment(plainLine(text)), ({ segment }) => segment)
  return graphemes.slice(0, GRAPHEMES_MAX).join('')
}

/** Whether the text shows anything: combining marks and spaces alone are invisible. */
export const isVisible = (line: string): boolean => /[\p{L}\p{N}\p{P}\p{S}]/u.test(line)

/**
 * The filter that writes the text at the lower edge, small enough to fit. Text and font are files of the working folder
 * with plain names, so nothing that a person typed becomes part of the filter.
 */
export async function textFilter(
  { text, fontFile }: VisibleText,
  folder: string,
  { width, height }: { width: number; height: number },
): Promise<string> {
  const line = cleanText(text)
  if (!isVisible(line)) {
    throw new MediaError('TEXT_UNUSABLE', 'The visible mark has no text.', { stage: 'prepare' })
  }
  const font = resolve(fontFile)
  try {
    await access(font, constants.R_OK)
  } catch (cause) {
    throw new MediaError('FONT_MISSING', 'The font of the visible mark is missing.', {
      stage: 'prepare',
      detail: font,
      cause,
    })
  }
  await writeFile(join(folder, TEXT_FILE), line)
  await symlink(font, join(folder, FONT_FILE))
  const size = Math.max(8, Math.floor(Math.min(height * 0.05, (width * 0.9) / widthInEms(line))))
  const colours = `fontcolor=white@0.75:borderw=${Math.max(1, Math.round(size / 16))}:bordercolor=black@0.6`
  const place = 'x=(w-text_w)/2:y=h-text_h-h*0.05'
  return `drawtext=fontfile=${FONT_FILE}:textfile=${TEXT_FILE}:expansion=none:fontsize=${size}:${colours}:${place}`
}

/** Rather too wide than too narrow: ideographs and pictures take a square, letters about two thirds of it. */
function widthInEms(line: string): number {
  let ems = 0
  for (const character of line) ems += (character.codePointAt(0) as number) >= 0x2e80 ? 1.1 : 0.66
  return ems
}
