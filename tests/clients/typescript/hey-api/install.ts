// Stores a machine's config, starts its install, and prints each event as it comes until the verdict.
//
//     node install.js https://127.0.0.1:9443 .gatehouse/ca/ca.pem .gatehouse/install.code
import { readFileSync } from 'node:fs'
import { createClient, createConfig } from '../../hey-api/installer/client/index.js'
import { putConfig, startInstall, streamInstallEvents, type InstallEvent } from '../../hey-api/installer/index.js'
import { fetchOver } from '../tls.js'

const [baseUrl = '', caFile = '', codeFile = ''] = process.argv.slice(2)
const code = readFileSync(codeFile, 'utf8').trim()
const client = createClient(
  createConfig({ baseUrl, auth: code, fetch: fetchOver({ ca: readFileSync(caFile, 'utf8') }) }),
)

await putConfig({
  client,
  body: {
    role: 'founder',
    hostname: 'node-1.example',
    mgmt: { address: '192.0.2.11/24', gateway: '192.0.2.1' },
    links: [{ interface: 'enp3s0' }],
    disks: [{ device: '/dev/sda', confirm: '/dev/sda' }],
  },
  throwOnError: true,
})
const { data: install } = await startInstall({ client, throwOnError: true })

// The client parses the stream, and where the connection is lost it resumes by `Last-Event-ID`. It tries again where
// it is refused, too, unless that is bounded.
const { stream } = await streamInstallEvents({
  client, query: { after: install.lastEventId }, headers: { Authorization: `Bearer ${code}` }, sseMaxRetryAttempts: 5,
})
for await (const each of stream) {
  // The document says that the stream is text; what its events are, a program has to say.
  const event = each as unknown as InstallEvent
  console.log(event.id, event.type, event.step ?? '', event.status ?? event.line ?? event.outcome ?? '')
  if (event.type === 'verdict') process.exitCode = event.outcome === 'succeeded' ? 0 : 1
}
