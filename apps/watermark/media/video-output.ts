import type { OutputPlan } from './output-plan.ts'
import { GRID } from './pattern.ts'
import type { ProbedMedia, Track } from './probe.ts'

/** What MP4 players everywhere play; anything else becomes AAC. */
const COPIED_SOUND = ['aac', 'mp3']

export function videoOutput(source: ProbedMedia): OutputPlan {
  // Colour is kept for squares of two by two pixels, so an odd row or column has none.
  const [width, height] = [source.width & ~1, source.height & ~1]
  const crop = width === source.width && height === source.height ? [] : [`crop=${width}:${height}:0:0`]
  return {
    name: 'marked.mp4',
    codec: 'h264',
    width,
    height,
    pattern: { format: 'yuv420p', planes: 1, flatBytes: (GRID * GRID) / 2 },
    toDraw: [...crop, 'scale=out_range=tv', 'format=yuv420p'].join(','),
    toMark: 'null',
    toEncode: 'null',
    encoder: [
      ...source.sound.flatMap(soundTrack),
      ...source.subtitles.flatMap(subtitleTrack),
      // At 20, fine detail differs more between two encodes than the mark does by itself, and it shows.
      ...['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '18', '-pix_fmt', 'yuv420p'],
      ...['-fps_mode', 'passthrough', '-movflags', '+faststart', '-f', 'mp4'],
    ],
  }
}

/** Every track is kept, with its language. */
const soundTrack = ({ index, codec, language }: Track, i: number): string[] => [
  ...['-map', `0:${index}`, `-c:a:${i}`],
  ...(COPIED_SOUND.includes(codec) ? ['copy'] : ['aac', `-b:a:${i}`, '160k']),
  ...(language === null ? [] : [`-metadata:s:a:${i}`, `language=${language}`]),
]

const subtitleTrack = ({ index, language }: Track, i: number): string[] => [
  ...['-map', `0:${index}`, `-c:s:${i}`, 'mov_text'],
  ...(language === null ? [] : [`-metadata:s:s:${i}`, `language=${language}`]),
]
