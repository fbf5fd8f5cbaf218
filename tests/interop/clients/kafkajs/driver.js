// kafkajs as a group member or producer. Options, commands and events: see ../conversation.py.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel, CompressionTypes, PartitionAssigners } = require('kafkajs')
const { version } = require('kafkajs/package.json')

const options = {
  'mode': 'consume',
  'topics': '',
  'pattern': '',
  'client-id': '',
  'session-timeout-ms': '6000',
  'heartbeat-ms': '500',
  'rebalance-timeout-ms': '30000',
  'metadata-max-age-ms': '60000',
  'isolation-level': 'read_uncommitted',
  'count': '0',
  'codec': 'none',
  'idempotent': 'false',
  'transactional-id': '',
}
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1]

const emit = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n')
const tell = error =>
  emit('error', { name: error.type || error.name, message: error.message, fatal: error.retriable === false })

const kafka = new Kafka({
  clientId: options['client-id'] || 'kafkajs-driver',
  brokers: options.bootstrap.split(','),
  logLevel: logLevel.WARN,
  logCreator: () => entry => process.stderr.write(JSON.stringify(entry) + '\n'),
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 30 },
})

async function consume() {
  const consumer = kafka.consumer({
    groupId: options.group,
    sessionTimeout: Number(options['session-timeout-ms']),
    heartbeatInterval: Number(options['heartbeat-ms']),
    rebalanceTimeout: Number(options['rebalance-timeout-ms']),
    metadataMaxAge: Number(options['metadata-max-age-ms']),
    partitionAssigners: [PartitionAssigners.roundRobin],
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 100,
    readUncommitted: options['isolation-level'] === 'read_uncommitted',
  })
  const positions = new Map()
  let owned = []

  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    owned = Object.entries(payload.memberAssignment).flatMap(([topic, ps]) => ps.map(p => [topic, p]))
    const names = new Set(owned.map(([topic, partition]) => `${topic}/${partition}`))
    for (const name of positions.keys()) if (!names.has(name)) positions.delete(name)
    emit('assigned', { partitions: owned })
  })
  const revoked = () => {
    emit('revoked', { partitions: owned })
    owned = []
  }
  consumer.on(consumer.events.REBALANCING, revoked)
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    tell(payload.error)
    emit('lost', { partitions: owned })
    owned = []
  })

  await consumer.connect()
  const topics = options.pattern ? [new RegExp(`^${options.pattern}`)] : options.topics.split(',')
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      positions.set(`${topic}/${partition}`, { topic, partition, offset: String(BigInt(message.offset) + 1n) })
      emit('record', { topic, partition, offset: Number(message.offset), value: String(message.value) })
    },
  })

  const commit = async () => {
    const offsets = [...positions.values()]
    try {
      if (offsets.length > 0) await consumer.commitOffsets(offsets)
      emit('committed', { offsets: offsets.map(o => [o.topic, o.partition, Number(o.offset)]) })
    } catch (error) {
      tell(error)
    }
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = line.trim()
    if (command === 'commit') await commit()
    if (command === 'leave') {
      await consumer.disconnect()
      emit('closed')
      process.exit(0)
    }
  }
  process.exit(3)
}

async function produce() {
  const transactionalId = options['transactional-id'] || undefined
  const idempotent = options.idempotent === 'true' || transactionalId !== undefined
  const producer = kafka.producer({ idempotent, transactionalId, maxInFlightRequests: idempotent ? 1 : null })
  const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[options.codec]
  const messages = Array.from({ length: Number(options.count) }, (_, n) => ({ value: `${options.codec}-${n}` }))
  try {
    await producer.connect()
    const sender = transactionalId ? await producer.transaction() : producer
    await sender.send({ topic: options.topic, acks: -1, compression, messages })
    if (transactionalId) await sender.commit()
    emit('produced', { count: messages.length })
    await producer.disconnect()
    emit('closed')
    process.exit(0)
  } catch (error) {
    tell(error)
    process.exit(0)
  }
}

async function transact() {
  const producer = kafka.producer({
    idempotent: true,
    transactionalId: options['transactional-id'],
    maxInFlightRequests: 1,
  })
  let transaction
  const values = (value, count) => Array.from({ length: Number(count) }, (_, n) => ({ value: `${value}-${n}` }))
  const actions = {
    // The producer id is fetched when the first transaction begins.
    init: () => producer.connect(),
    begin: async () => (transaction = await producer.transaction()),
    produce: (topic, value, count) => transaction.send({ topic, acks: -1, messages: values(value, count) }),
    offsets: (topic, partition, offset) =>
      transaction.sendOffsets({
        consumerGroupId: options.group,
        topics: [{ topic, partitions: [{ partition: Number(partition), offset }] }],
      }),
    commit: () => transaction.commit(),
    abort: () => transaction.abort(),
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.trim().split(' ')
    if (command === 'leave') {
      await producer.disconnect()
      emit('closed')
      process.exit(0)
    }
    try {
      await actions[command](...words)
      emit('done', { command })
    } catch (error) {
      tell(error)
    }
  }
  process.exit(3)
}

emit('ready', { client: 'kafkajs', version })
const run = { consume, produce, transact }[options.mode]
run().catch(error => {
  tell(error)
  process.exit(1)
})
