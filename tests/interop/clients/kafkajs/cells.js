// kafkajs visits a secured broker. What it reads, does and answers: see ../visits.py.
'use strict'

const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const AT_ONCE = 8
const STEP_MS = 40_000
const STAY_MS = 7_000
const PAUSE_MS = 100
const CATCH_UP_MS = 60_000

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const words = error => `${error.type || error.name}: ${error.message}`

const said = async action => {
  try {
    await action()
    return ''
  } catch (error) {
    return words(error)
  }
}

const clientOf = cell => {
  const read = path => path && fs.readFileSync(path, 'utf-8')
  const ssl = { ca: [read(cell.authority)], cert: read(cell.certificate), key: read(cell.key) }
  const sasl = { mechanism: (cell.mechanism || '').toLowerCase(), username: cell.user, password: cell.password }
  return new Kafka({
    clientId: cell.name,
    brokers: [cell.bootstrap],
    ssl: cell.protocol.includes('SSL') ? ssl : undefined,
    sasl: cell.mechanism ? sasl : undefined,
    reauthenticationThreshold: 1000, // its default is more than a session here
    connectionTimeout: 20_000,
    authenticationTimeout: 20_000,
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, retries: cell.visit === 'login' ? 1 : 5 },
  })
}

async function openProducer(cell) {
  const producer = clientOf(cell).producer({ allowAutoTopicCreation: false })
  await producer.connect()
  return producer
}

// A member whose values are handed to `each`, and whose failure, once it has one, to `failed`.
async function openMember(cell, groupId, each, failed) {
  const consumer = clientOf(cell).consumer({ groupId, maxWaitTimeInMs: PAUSE_MS, allowAutoTopicCreation: false })
  const positions = new Map()
  consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error))
  await consumer.connect()
  await consumer.subscribe({ topics: [cell.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      positions.set(partition, { topic, partition, offset: String(BigInt(message.offset) + 1n) })
      each(String(message.value))
    },
  })
  return { commit: () => consumer.commitOffsets([...positions.values()]), close: () => consumer.disconnect() }
}

// Resolves with the member once it has read the value.
async function readUntil(cell, groupId, value) {
  let met, failed
  const read = new Promise((resolve, reject) => ([met, failed] = [resolve, reject]))
  const member = await openMember(cell, groupId, each => each === value && met(), failed)
  const late = sleep(STEP_MS).then(() => failed(new Error(`${value} was not read`)))
  await Promise.race([read, late])
  return member
}

async function login(cell) {
  const admin = clientOf(cell).admin()
  const ask = async () => {
    await admin.connect()
    await admin.fetchTopicMetadata({ topics: [cell.topic] })
  }
  const answer = { login: await said(ask) }
  await admin.disconnect()
  return answer
}

async function work(cell) {
  const answer = {}
  const send = topic => producer.send({ topic, messages: [{ value: cell.name }] })
  let producer, member
  const steps = {
    login: async () => (producer = await openProducer(cell)),
    produce: () => send(cell.topic),
    consume: async () => (member = await readUntil(cell, cell.group, cell.name)),
    commit: () => member.commit(),
  }
  for (const [step, action] of Object.entries(steps)) {
    answer[step] = await said(action)
    if (answer[step]) return answer
  }
  answer.refused_topic = await said(() => send(cell.refused_topic))
  answer.refused_group = await said(() => readUntil(cell, cell.refused_group, cell.name))
  await member.close()
  await producer.disconnect()
  return answer
}

async function stay(cell) {
  const sent = []
  const errors = []
  const read = new Set()
  let begun = false
  const producer = await openProducer(cell)
  const count = value => {
    if (value.startsWith(cell.name)) read.add(value)
    begun ||= value === `first of ${cell.name}`
  }
  const member = await openMember(cell, cell.group, count, error => errors.push(words(error)))
  await producer.send({ topic: cell.topic, messages: [{ value: `first of ${cell.name}` }] })
  while (!begun) await sleep(PAUSE_MS)
  const end = Date.now() + STAY_MS
  while (Date.now() < end) {
    const messages = [{ value: `${cell.name} ${sent.length}` }]
    sent.push(said(() => producer.send({ topic: cell.topic, messages })))
    await sleep(PAUSE_MS)
  }
  while (read.size < sent.length && Date.now() < end + CATCH_UP_MS) await sleep(PAUSE_MS)
  const lost = (await Promise.all(sent)).filter(each => each)
  const commit = await said(() => member.commit())
  await member.close()
  await producer.disconnect()
  return { sent: sent.length, acknowledged: sent.length - lost.length, read: read.size, commit, errors: [...errors, ...lost] }
}

const visits = { login, work, stay }
const lines = fs.readFileSync(0, 'utf-8').trimEnd().split('\n')
const cells = lines.map(line => Object.fromEntries(line.split('\t').map(word => word.split(/=(.*)/s, 2))))

async function visitor() {
  for (let cell = cells.shift(); cell; cell = cells.shift()) {
    const answer = await visits[cell.visit](cell).catch(error => ({ login: words(error) }))
    process.stdout.write(JSON.stringify({ cell: cell.name, ...answer }) + '\n')
  }
}

Promise.all(Array.from({ length: AT_ONCE }, visitor)).then(() => process.exit(0))
