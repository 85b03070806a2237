import { join } from 'node:path'
import protobuf from 'protobufjs'

const PROTO = join(import.meta.dirname, '../../packages/redress/proto/dead_letter_task.proto')

// biome-ignore lint/suspicious/noExplicitAny: a message is what the schema that ships says
export type Task = any

/** Reads exported dead letters with the schema that ships, as a program of somebody else's would. */
export async function readTasks(bytes: Uint8Array): Promise<Task[]> {
  const message = (await protobuf.load(PROTO)).lookupType('redress.v1.DeadLetterTask')
  const reader = protobuf.Reader.create(bytes)
  const tasks: Task[] = []
  while (reader.pos < reader.len) {
    const task = message.toObject(message.decodeDelimited(reader), { longs: Number, defaults: true })
    tasks.push({ ...task, payload: JSON.parse(Buffer.from(task.task.payloadJson).toString('utf8')) })
  }
  return tasks
}
