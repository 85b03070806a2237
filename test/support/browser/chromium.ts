import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type LaunchOptions } from 'playwright-core'
import { sharedServer } from '../run/shared-servers.ts'

const MODULES = join(import.meta.dirname, '../../../node_modules')
const CACHE = join(MODULES, '.cache')
const UNPACKED = join(CACHE, 'chromium-147.0.0')
const INSTALLED = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']

/** The browser that is there, or the one that a package brings along, with the libraries that a bare machine lacks. */
function program(): Pick<LaunchOptions, 'executablePath' | 'env'> {
  const installed = process.env.CHROMIUM ?? INSTALLED.find((path) => existsSync(path))
  if (installed !== undefined) return { executablePath: installed }
  if (!existsSync(UNPACKED)) unpack()
  const env = {
    LD_LIBRARY_PATH: join(UNPACKED, 'al2023/lib'),
    FONTCONFIG_FILE: join(UNPACKED, 'fonts.conf'),
    HOME: UNPACKED,
  }
  return { executablePath: join(UNPACKED, 'chromium'), env: { ...process.env, ...env } as Record<string, string> }
}

/** A bare machine has no fonts at all: then nothing is written, and a letter that no font has ends the browser. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(UNPACKED, 'fonts/fonts')}</dir>
  <dir>${join(MODULES, 'dejavu-fonts-ttf/ttf')}</dir>
  <cachedir>${join(UNPACKED, 'fonts-cache')}</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
`

/** Once, whoever comes first: into a folder of its own, so that nobody finds half of it. */
function unpack(): void {
  mkdirSync(CACHE, { recursive: true })
  const own = mkdtempSync(join(CACHE, 'unpacking-'))
  const script = `await (await import('@sparticuz/chromium')).default.executablePath()`
  execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: import.meta.dirname,
    // It unpacks into the folder for temporary files, and the libraries only where it takes itself to be.
    env: { ...process.env, TMPDIR: own, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x' },
  })
  writeFileSync(join(own, 'fonts.conf'), FONTS)
  try {
    renameSync(own, UNPACKED)
  } catch (error) {
    rmSync(own, { recursive: true, force: true })
    // Another process was faster.
    if (!existsSync(UNPACKED)) throw error
  }
}

export const launchOptions = (): LaunchOptions => ({
  ...program(),
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})

let browser: Promise<Browser> | null = null

/** One connection for all who ask in this process, until it is closed: to the browser of the run, if there is one. */
export function openChromium(): Promise<Browser> {
  browser ??= sharedServer('browser').then((endpoint) =>
    endpoint === null ? chromium.launch(launchOptions()) : chromium.connect(endpoint),
  )
  return browser
}

export async function closeChromium(): Promise<void> {
  await (await browser)?.close()
  browser = null
}
