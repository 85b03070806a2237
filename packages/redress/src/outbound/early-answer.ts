import type { Socket } from 'node:net'

/** How long a response may still take after the peer stopped reading. It is already in a buffer, or it never comes. */
const ANSWER_MS_MAX = 2_000

/**
 * Lets an HTTP client read a response that arrives before the request is fully sent. A server that refuses early
 * (401, 413, 415) and closes makes the next write fail with EPIPE or ECONNRESET. Node then destroys the socket and
 * the unread response, so a refusal looks like a network error. Here such a write stays pending. Reading continues
 * until the response or the end of the connection.
 */
export function readEarlyAnswers<Connection extends Socket>(socket: Connection): Connection {
  const write = socket._write
  const writev = socket._writev
  socket._write = function (chunk, encoding, done) {
    write.call(this, chunk, encoding, unlessBroken(socket, done))
  }
  if (writev !== undefined) {
    socket._writev = function (chunks, done) {
      writev.call(this, chunks, unlessBroken(socket, done))
    }
  }
  return socket
}

type WriteDone = (error?: Error | null) => void

function unlessBroken(socket: Socket, done: WriteDone): WriteDone {
  return (error) => {
    const { code } = (error ?? {}) as NodeJS.ErrnoException
    if (code !== 'EPIPE' && code !== 'ECONNRESET') {
      done(error)
      return
    }
    const late = setTimeout(() => socket.destroy(error as Error), ANSWER_MS_MAX)
    socket.once('close', () => clearTimeout(late))
  }
}
