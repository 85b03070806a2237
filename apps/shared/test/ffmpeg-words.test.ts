import { expect, test } from 'vitest'
import { FfmpegWords } from '../src/media/ffmpeg.ts'

const causeOf = (stderr: string): string => {
  const words = new FfmpegWords()
  for (const line of stderr.split('\n')) words.onStderrLine(line)
  return words.causeIn(stderr)
}

test.each([
  [
    'the first error of a decoder, and how ffmpeg calls it',
    `[info] Stream mapping:
[h264 @ 0x55] [error] Invalid NAL unit size (-15 > 12).
[h264 @ 0x55] [error] Error splitting the input into NAL units.
[vist#0:0/h264 @ 0x5] [dec:h264 @ 0x6] [error] Error submitting packet to decoder: Invalid data found when processing input
[vist#0:0/h264 @ 0x5] [dec:h264 @ 0x6] [error] Task finished with error code: -1094995529 (Invalid data found)
[info] Conversion failed!`,
    'Invalid NAL unit size (-15 > 12). Error submitting packet to decoder: Invalid data found when processing input',
  ],
  [
    'two sentences, also where the decoder ends its line without a full stop',
    `[h264 @ 0x55] [error] Reference 2 >= 2
[vist#0:0/h264 @ 0x5] [dec:h264 @ 0x6] [error] Error submitting packet to decoder: Invalid data found when processing input`,
    'Reference 2 >= 2. Error submitting packet to decoder: Invalid data found when processing input',
  ],
  [
    'the error that says everything',
    `[in#0 @ 0x5] [error] Error opening input: No such file or directory
[error] Error opening input file file:/card/gone.mov.
[fatal] Error opening input files: No such file or directory`,
    'Error opening input: No such file or directory',
  ],
  [
    'the cause in the words of a program that gives no levels',
    `[h264 @ 0x55] no frame!
av_interleaved_write_frame(): No space left on device
frame=   12 fps=0.0 q=28.0 Lsize=       3KiB time=00:00:00.40
Conversion failed!`,
    'av_interleaved_write_frame(): No space left on device',
  ],
  ['the last line of a program that says something else', 'first\nboom\n', 'boom'],
  [
    'nothing of an ffmpeg that crashed after it had described its streams',
    'o]     handler_name : unknown\n[out#0 @ 0x5] [info]     Metadata:\n[info]         encoder         : Lavc prores_ks\n[info] title : unknown error\n',
    '',
  ],
  ['nothing of a program that says nothing', '', ''],
  ['nothing where only the end is told', 'Conversion failed!\n', ''],
])('the cause of a failure is %s', (_what, stderr, cause) => {
  expect(causeOf(stderr)).toBe(cause)
})

test('the cause is found also where the end of stderr no longer has it', () => {
  const words = new FfmpegWords()
  words.onStderrLine('[mjpeg @ 0x1] [error] overread 8')
  expect(words.causeIn('[libx264 @ 0x2] [info] kb/s:20.30\n[info] Conversion failed!\n')).toBe('overread 8')
})
