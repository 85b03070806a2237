import { z } from 'zod'
import { EXPORT_FORMATS } from '../../operations/dead-letters/export.ts'
import { filterFields } from '../../operations/dead-letters/filter.ts'
import { OPERATIONS } from '../../operations/table.ts'
import { type AppPaths, schemaOf } from './app-routes.ts'
import { appErrorAnswerSchema, errorAnswerSchema } from './error-answer.ts'
import { TABLE_ROUTES } from './routes.ts'

/** The document of the HTTP API, made from the table of operations and from the routes that apps have added. */
export function openApi(version: string, serverUrl: string, cookieName: string, appPaths: AppPaths = {}): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const { name, method, url } of TABLE_ROUTES) {
    const path = url.replaceAll(/:([a-zA-Z]+)/g, '{$1}')
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationObject(name, url, method) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Redress',
      version,
      description:
        'Jobs, their failures, and what can be done about them. Every refusal has the shape of `Error`; times are ISO 8601 in UTC.',
    },
    servers: [{ url: serverUrl }],
    security: [{ token: [] }, { session: [] }],
    paths: { ...paths, ...OTHER_PATHS, ...appPaths },
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'Made by `redress tokens create`.' },
        session: { type: 'apiKey', in: 'cookie', name: cookieName, description: 'Of a browser that has signed in.' },
      },
      schemas: {
        Error: schemaOf(errorAnswerSchema, 'input'),
        AppError: schemaOf(appErrorAnswerSchema, 'input'),
      },
      responses: {
        Refused: {
          description: 'Refused, with a code of the table of errors.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
        AppRefused: {
          description: 'Refused by the app, or by the server.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/AppError' } } },
        },
      },
    },
  }
}

function operationObject(name: keyof typeof OPERATIONS, url: string, method: string): object {
  const { summary, role, input, output, allowsOwners, creates } = OPERATIONS[
    name
  ] as (typeof OPERATIONS)[typeof name] & {
    allowsOwners?: boolean
    creates?: boolean
  }
  const { properties = {}, required = [] } = schemaOf(input, 'input')
  const inPath = [...url.matchAll(/:([a-zA-Z]+)/g)].map(([, field]) => field as string)
  // The server fills in actor and owner.
  const fields = Object.entries(properties).filter(([field]) => !inPath.includes(field) && field !== 'actor')
  const pathParameters = inPath.map((field) => ({
    name: field,
    in: 'path',
    required: true,
    schema: properties[field] ?? { type: 'string' },
  }))
  const answer = {
    description: 'Done, or as it stands.',
    content: { 'application/json': { schema: output === undefined ? {} : schemaOf(output, 'output') } },
  }
  const isRead = method === 'GET'
  const queryParameters = fields.map(([field, schema]) => ({
    name: field,
    in: 'query',
    required: required.includes(field),
    schema,
  }))
  const neededFields = required.filter((field) => fields.some(([name]) => name === field))
  return {
    operationId: name,
    summary,
    description: `Needs the role ${role}${allowsOwners ? ', or owner for what is their own' : ''}.`,
    tags: [name.split('.')[0]],
    ...(pathParameters.length + (isRead ? queryParameters.length : 0) > 0 && {
      parameters: isRead ? [...pathParameters, ...queryParameters] : pathParameters,
    }),
    ...(!isRead && {
      requestBody: {
        required: neededFields.length > 0,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              properties: Object.fromEntries(fields),
              ...(neededFields.length > 0 && { required: neededFields }),
              additionalProperties: false,
            },
          },
        },
      },
    }),
    responses: {
      '200': answer,
      ...(creates && { '201': { ...answer, description: 'Done: something new is there.' } }),
      default: { $ref: '#/components/responses/Refused' },
    },
  }
}

const text = (description: string, type: string) => ({
  description,
  content: { [type]: { schema: { type: 'string' } } },
})
const file = (description: string) => ({ description, content: { '*/*': { schema: {} } } })
const refused = { default: { $ref: '#/components/responses/Refused' } }

function letterFilters(): object[] {
  const { properties = {} } = schemaOf(z.object(filterFields), 'input')
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'query', required: false, schema }))
}

const OTHER_PATHS = {
  '/api/events': {
    get: {
      operationId: 'events',
      summary: 'What happens, as it happens (server-sent events).',
      description: 'Needs the role viewer, or owner for what is their own.',
      tags: ['events'],
      parameters: [
        {
          name: 'topic',
          in: 'query',
          required: false,
          description:
            'job:ID, batch:ID, owner:NAME, type:NAME, queue:NAME, breaker:NAME, schedule:NAME, or *; repeatable.',
          schema: { type: 'array', items: { type: 'string' } },
          explode: true,
        },
        {
          name: 'every',
          in: 'query',
          required: false,
          description:
            'Gathers what happens and tells it together, as `changes`, at most once in so many milliseconds.',
          schema: { type: 'integer', minimum: 250, maximum: 60_000 },
        },
        {
          name: 'Last-Event-ID',
          in: 'header',
          required: false,
          description: 'Goes on after this event.',
          schema: { type: 'string' },
        },
      ],
      responses: { '200': text('A stream that does not end by itself.', 'text/event-stream'), ...refused },
    },
  },
  '/api/jobs/{id}/download': {
    get: {
      operationId: 'download',
      summary: 'The file that a job made.',
      description:
        'Needs the role viewer, or owner for what is their own. 409 NOT_READY before the job is complete; 404 EXPIRED when the ' +
        'file is gone, NOTHING_TO_DOWNLOAD where jobs of this type make none. Takes a Range of bytes.',
      tags: ['jobs'],
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
      responses: { '200': file('The file.'), '206': file('The part that was asked for.'), ...refused },
    },
  },
  '/api/dead-letters/export': {
    get: {
      operationId: 'dead-letters.export',
      summary: 'All dead letters of a list, as lines of JSON or as protobuf messages.',
      description:
        'Needs the role viewer. Messages are `DeadLetterTask` of proto/dead_letter_task.proto, each with its length before it.',
      tags: ['dead-letters'],
      parameters: [
        {
          name: 'format',
          in: 'query',
          required: false,
          schema: { type: 'string', enum: EXPORT_FORMATS, default: 'jsonl' },
        },
        ...letterFilters(),
      ],
      responses: { '200': file('The letters, the oldest first.'), ...refused },
    },
  },
  '/api/me': {
    get: {
      operationId: 'me',
      summary: 'Who you are to this server.',
      tags: ['access'],
      responses: {
        '200': { description: 'You.', content: { 'application/json': { schema: { type: 'object' } } } },
        ...refused,
      },
    },
  },
  '/metrics': {
    get: {
      operationId: 'metrics',
      summary: 'Metrics in the format of Prometheus.',
      description: 'Needs the role viewer.',
      tags: ['observability'],
      responses: { '200': text('Metrics.', 'text/plain'), ...refused },
    },
  },
  '/healthz': {
    get: {
      operationId: 'healthz',
      summary: 'Whether the process answers.',
      security: [],
      tags: ['observability'],
      responses: {
        '200': { description: 'It does.', content: { 'application/json': { schema: { type: 'object' } } } },
      },
    },
  },
  '/readyz': {
    get: {
      operationId: 'readyz',
      summary: 'Whether it can do its work: the store answers.',
      security: [],
      tags: ['observability'],
      responses: {
        '200': { description: 'It can.', content: { 'application/json': { schema: { type: 'object' } } } },
        '503': { description: 'It cannot.', content: { 'application/json': { schema: { type: 'object' } } } },
      },
    },
  },
  '/openapi.json': {
    get: {
      operationId: 'openapi',
      summary: 'This document.',
      description: 'Needs any role.',
      tags: ['observability'],
      responses: {
        '200': { description: 'It.', content: { 'application/json': { schema: { type: 'object' } } } },
        ...refused,
      },
    },
  },
}
