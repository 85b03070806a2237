import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ArtifactHead, ArtifactStore } from '../../artifacts/artifact-store.ts'
import { RedressError } from '../../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'

/** Metadata of a file, known before it is read. */
export interface FileFacts {
  /** Of the whole file, as it is stored. */
  bytes: number
  /** Without quotes. Two contents never have the same tag. */
  tag: string
  modifiedAtMs: number | null
  contentType: string | null
  /** How the stored bytes are encoded: 'gzip'. They are sent as they are. */
  contentEncoding: string | null
}

/** The part of a file that a client asked for, in bytes. */
export interface FileRange {
  start: number
  /** Inclusive. */
  end: number
}

interface OpenedFile extends FileFacts {
  body: Readable
}

/** A file that can be sent. Its content may be replaced between `look` and `read`. */
export interface FileSource {
  look(): Promise<FileFacts>
  read(range: FileRange | null): Promise<OpenedFile>
}

/** The options of `sendFile()`. */
export interface SendFileOptions {
  /** The content type; the file's own type when left out. */
  contentType?: string
  /** The file is saved under this name. Without it, a browser may show the file. */
  fileName?: string
  /** 'private, no-cache' when left out, unless the reply has the header already. */
  cacheControl?: string
  /**
   * Called once, after the range is known and before the file is read. It may refuse by throwing. The returned tag is
   * sent instead of the file's tag; `isTagOf` must recognize it.
   */
  admit?(wanted: { range: FileRange | null; facts: FileFacts }): Promise<string>
  /** Whether a tag from a client stands for this content. Equality when left out. */
  isTagOf?(given: string, tag: string): boolean
}

const OPTIONS = optionNames<SendFileOptions>({
  contentType: true,
  fileName: true,
  cacheControl: true,
  admit: true,
  isTagOf: true,
})

/** How often a file may be replaced while one request is answered. */
const REPLACED_TRIES = 10
const CONDITIONS = ['range', 'if-none-match', 'if-modified-since'] as const

/**
 * Sends a file as RFC 9110 requires, for every download route: the whole file or one range. A client that already has
 * the content gets 304, an unsatisfiable range gets 416 with the length. Several ranges and invalid ranges get the
 * whole file. A HEAD reads nothing.
 */
export async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  source: FileSource,
  options: SendFileOptions = {},
): Promise<FastifyReply> {
  refuseUnknownOptions('sendFile()', options, OPTIONS)
  const { admit } = options
  const isHead = request.method === 'HEAD'
  const isPlain = !isHead && admit === undefined && CONDITIONS.every((name) => request.headers[name] === undefined)
  if (isPlain) return sendBody(reply, await readable(source, null), null, options)
  let tag: string | undefined
  for (let tries = 1; ; tries++) {
    const facts = await source.look()
    if (isUnchanged(request, facts, options)) return sendHead(reply.code(304), facts, { ...options, tag })
    const range = isHead ? null : rangeOf(request, reply, facts, options)
    // Called once: a route that counts downloads must not count a file twice because it was replaced meanwhile.
    if (admit !== undefined) tag ??= await admit({ range, facts })
    if (isHead) {
      void reply.header('content-length', facts.bytes)
      // Without any body, the framework would send a length of 0.
      return sendHead(reply, facts, { ...options, tag }, Readable.from([]))
    }
    const opened = await readAgain(source, range, facts, tries)
    if (opened !== null) return sendBody(reply, opened, range, { ...options, tag })
  }
}

/** Null if the file was replaced since `look`: the range would belong to other content. */
async function readAgain(
  source: FileSource,
  range: FileRange | null,
  facts: FileFacts,
  tries: number,
): Promise<OpenedFile | null> {
  try {
    const opened = await readable(source, range)
    if (range === null || opened.tag === facts.tag) return opened
    opened.body.destroy()
  } catch (error) {
    const isShorterNow = error instanceof RedressError && error.code === 'ARTIFACT_RANGE_INVALID'
    if (!isShorterNow || tries === REPLACED_TRIES) throw error
  }
  if (tries < REPLACED_TRIES) return null
  throw new RedressError('STORAGE_FAILED', 'The file was replaced several times while it was read.')
}

/** Damage found before the first byte is sent can still be refused with a message. */
async function readable(source: FileSource, range: FileRange | null): Promise<OpenedFile> {
  const opened = await source.read(range)
  if (opened.bytes > 0) await once(opened.body, 'readable')
  return opened
}

type Sent = SendFileOptions & { tag?: string | undefined }

function sendBody(reply: FastifyReply, opened: OpenedFile, range: FileRange | null, sent: Sent): FastifyReply {
  const { body, bytes } = opened
  // A client that disconnects early must not keep a file or a connection open.
  reply.raw.once('close', () => body.destroy())
  if (range !== null) void reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  void reply.header('content-length', range === null ? bytes : range.end - range.start + 1)
  return sendHead(reply, opened, sent, body)
}

function sendHead(reply: FastifyReply, facts: FileFacts, sent: Sent, body?: Readable): FastifyReply {
  const { tag, modifiedAtMs, contentType, contentEncoding } = facts
  void reply.header('etag', `"${sent.tag ?? tag}"`).header('accept-ranges', 'bytes')
  if (modifiedAtMs !== null) void reply.header('last-modified', new Date(modifiedAtMs).toUTCString())
  if (!reply.hasHeader('cache-control')) void reply.header('cache-control', sent.cacheControl ?? 'private, no-cache')
  // A response without content must not describe one.
  if (body === undefined) return reply.send()
  if (contentEncoding !== null) void reply.header('content-encoding', contentEncoding)
  if (sent.fileName !== undefined) void reply.header('content-disposition', attachment(sent.fileName))
  return reply.type(sent.contentType ?? contentType ?? 'application/octet-stream').send(body)
}

/** Whether the client already has this content. */
function isUnchanged({ headers }: FastifyRequest, { tag, modifiedAtMs }: FileFacts, { isTagOf }: SendFileOptions) {
  const given = headers['if-none-match']
  // The date counts only if the client sends no tag.
  if (given !== undefined) return hasTag(given, tag, isTagOf)
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return modifiedAtMs !== null && toSecond(modifiedAtMs) <= since
}

/** Whether `If-None-Match` names this tag: in a list, marked as weak by a proxy, or as `*`. */
export function hasTag(header: string, tag: string, isTagOf = isSame): boolean {
  if (header.trim() === '*') return true
  return [...header.matchAll(/"([^"]*)"/g)].some(([, given = '']) => isTagOf(given, tag))
}

const isSame = (a: string, b: string): boolean => a === b
/** HTTP dates have a resolution of one second. */
const toSecond = (ms: number): number => Math.floor(ms / 1000) * 1000

/** The requested range; null for the whole file. */
function rangeOf(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  facts: FileFacts,
  options: SendFileOptions,
): FileRange | null {
  const { bytes } = facts
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/i.exec(headers.range?.trim() ?? '') ?? []
  const isRange = (from !== '' || to !== '') && (from === '' || to === '' || Number(from) <= Number(to))
  // A client that has the beginning of other content gets all of this one.
  if (!isRange || !isSameContent(headers['if-range'], facts, options)) return null
  // The last bytes of an empty file are the whole file.
  if (from === '' && Number(to) > 0 && bytes === 0) return null
  const start = from === '' ? Math.max(0, bytes - Number(to)) : Number(from)
  const end = from === '' || to === '' ? bytes - 1 : Math.min(bytes - 1, Number(to))
  if (start < bytes) return { start, end }
  void reply.header('content-range', `bytes */${bytes}`).header('accept-ranges', 'bytes')
  throw new RedressError('ARTIFACT_RANGE_INVALID', `The requested range is outside the file, which has ${bytes} bytes.`)
}

/** Evaluates `If-Range`. A weak tag never matches: a part must belong to exactly these bytes. */
function isSameContent(ifRange: unknown, { tag, modifiedAtMs }: FileFacts, { isTagOf = isSame }: SendFileOptions) {
  if (ifRange === undefined) return true
  const given = String(ifRange).trim()
  const [, quoted] = /^"([^"]*)"$/.exec(given) ?? []
  if (quoted !== undefined) return isTagOf(quoted, tag)
  return modifiedAtMs !== null && Date.parse(given) === toSecond(modifiedAtMs)
}

/** An artifact. Its checksum is verified when it is read whole. */
export function artifactFile(artifacts: ArtifactStore, key: string): FileSource {
  return {
    look: async () => factsOf(await artifacts.head(key)),
    async read(range) {
      const content = await artifacts.get(key, range === null ? { verify: true } : { range })
      return { ...factsOf(content), body: content.body }
    },
  }
}

function factsOf({ bytes, sha256, modifiedAtMs, contentType, contentEncoding }: ArtifactHead): FileFacts {
  // A bucket may not know the checksum of its objects.
  const tag = sha256 ?? `${bytes.toString(16)}-${modifiedAtMs.toString(16)}`
  return { bytes, tag, modifiedAtMs: modifiedAtMs > 0 ? modifiedAtMs : null, contentType, contentEncoding }
}

/** A local file. If it grows during the transfer, only its original length is sent. */
export function diskFile(path: string): FileSource {
  const opened = async () => {
    const file = await open(path)
    try {
      const { size, mtimeNs, ino } = await file.stat({ bigint: true })
      const tag = [ino, size, mtimeNs].map((part) => part.toString(16)).join('-')
      const modifiedAtMs = Number(mtimeNs / 1_000_000n)
      return { file, facts: { bytes: Number(size), tag, modifiedAtMs, contentType: null, contentEncoding: null } }
    } catch (error) {
      await file.close()
      throw error
    }
  }
  return {
    async look() {
      const { file, facts } = await opened()
      await file.close()
      return facts
    },
    async read(range) {
      const { file, facts } = await opened()
      if (facts.bytes > 0) return { ...facts, body: file.createReadStream(range ?? { start: 0, end: facts.bytes - 1 }) }
      await file.close()
      return { ...facts, body: Readable.from([]) }
    },
  }
}

/** Always saved, never shown: a file from a stranger must not become a page of this origin. */
function attachment(name: string): string {
  const short = shortened(name)
  const plain = short.replace(/[^\w.() -]/g, '_')
  const encoded = encodeURIComponent(short).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

const NAME_CHARS_MAX = 150

/** Keeps the file extension and does not cut a character in half. */
function shortened(name: string): string {
  if (name.length <= NAME_CHARS_MAX) return name.toWellFormed()
  const ending = /\.\w{1,10}$/.exec(name)?.[0] ?? ''
  return (
    name
      .slice(0, NAME_CHARS_MAX - ending.length)
      .replace(/[\uD800-\uDBFF]$/, '')
      .toWellFormed() + ending
  )
}
