import type { OutputPlan } from './output-plan.ts'
import { GRID } from './pattern.ts'
import type { ProbedMedia } from './probe.ts'

/** What MP4 players everywhere play; anything else becomes AAC. */
const COPIED_SOUND = ['aac', 'mp3']

export function videoOutput(source: ProbedMedia): OutputPlan {
  // Colour is kept for squares of two by two pixels, so an odd row or column has none.
  const [width, height] = [source.width & ~1, source.height & ~1]
  const crop = width === source.width && height === source.height ? [] : [`crop=${width}:${height}:0:0`]
  const sound = COPIED_SOUND.includes(source.audioCodec ?? '') ? ['copy'] : ['aac', '-b:a', '160k']
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
      ...(source.audioIndex === null ? [] : ['-map', `0:${source.audioIndex}`, '-c:a', ...sound]),
      // At 20, fine detail differs more between two encodes than the mark does by itself, and it shows.
      ...['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '18', '-pix_fmt', 'yuv420p'],
      ...['-fps_mode', 'passthrough', '-movflags', '+faststart', '-f', 'mp4'],
    ],
  }
}
