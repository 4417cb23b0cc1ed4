// Stores a machine's config, starts its install, and prints each event as it comes until the verdict.
//
//     node install.js https://127.0.0.1:9443 .gatehouse/ca/ca.pem .gatehouse/install.code
import { readFileSync } from 'node:fs'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import createClient from 'openapi-fetch'
import type { components, paths } from '../../openapi-fetch/installer.js'
import { fetchOver, sleep } from '../tls.js'

type InstallEvent = components['schemas']['InstallEvent']

const [baseUrl = '', caFile = '', codeFile = ''] = process.argv.slice(2)
const client = createClient<paths>({
  baseUrl,
  fetch: fetchOver({ ca: readFileSync(caFile, 'utf8') }),
  headers: { Authorization: `Bearer ${readFileSync(codeFile, 'utf8').trim()}` },
})

/** Yields the events after `last` as they come; a connection that is lost is made again, and none is missed. */
async function* events(last: number): AsyncGenerator<InstallEvent> {
  for (;;) {
    try {
      const { data, error } = await client.GET('/v1/installer/install/events', {
        params: { query: { after: last } }, parseAs: 'stream',
      })
      if (error) throw new Error(`no events: ${error.code}`)
      // The document says that the stream is text; what its events are, a program has to say.
      const text = data!.pipeThrough(new TextDecoderStream())
      for await (const { data: line } of text.pipeThrough(new EventSourceParserStream())) {
        const event = JSON.parse(line) as InstallEvent
        last = event.id
        yield event
      }
    } catch (error) {
      // Node's fetch tells of a lost connection by a TypeError.
      if (!(error instanceof TypeError)) throw error
      await sleep(2000)
    }
  }
}

const { error: refused } = await client.PUT('/v1/installer/config', {
  body: {
    role: 'founder',
    hostname: 'node-1.example',
    mgmt: { address: '192.0.2.11/24', gateway: '192.0.2.1' },
    links: [{ interface: 'enp3s0' }],
    disks: [{ device: '/dev/sda', confirm: '/dev/sda' }],
  },
})
if (refused) throw new Error(`the config is refused: ${refused.code}`)
const { data: install, error: notStarted } = await client.POST('/v1/installer/install')
if (notStarted) throw new Error(`the install is not started: ${notStarted.code}`)
for await (const event of events(install.lastEventId)) {
  console.log(event.id, event.type, event.step ?? '', event.status ?? event.line ?? event.outcome ?? '')
  if (event.type === 'verdict') {
    process.exitCode = event.outcome === 'succeeded' ? 0 : 1
    break
  }
}
