/**
 * Shapes of the REST API and the websocket, as far as the page reads them.
 *
 * @typedef {{code: string, detail: string, retryable: boolean}} TurnError
 *
 * @typedef {object} Turn
 * @property {string} id
 * @property {string} input id of the user message
 * @property {number} number
 * @property {"running" | "completed" | "failed" | "stopped" | "interrupted"} status
 * @property {string} finish_reason
 * @property {TurnError | null} error
 * @property {{follows: boolean, error: string} | null} [output_schema]
 * @property {string} model
 * @property {number | null} ms
 * @property {{input: number | null, cached_input: number | null, output: number | null}} usage
 * @property {number} answers runs for the same input
 * @property {1 | -1 | null} [feedback] what this person thinks of it
 *
 * @typedef {object} Attachment
 * @property {string} id
 * @property {string} name
 * @property {string} content_type
 * @property {number} size
 * @property {number} width
 * @property {number} height
 * @property {string} url
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string | null} parent
 * @property {number} seq
 * @property {"system" | "user" | "assistant" | "tool"} role
 * @property {string | null} content
 * @property {string} html sanitised by the server
 * @property {boolean} is_partial
 * @property {string} created_at
 * @property {number | null} token_count
 * @property {Attachment[]} attachments
 * @property {Turn | null} turn
 * @property {{id: string, name: string, arguments: string}[]} [tool_calls]
 * @property {string} [tool_call_id] of a tool's result
 * @property {string} [name] of the tool
 * @property {boolean} [is_error]
 * @property {boolean} [is_redacted]
 * @property {string[]} [siblings] ids of what stands in its place on one branch or another
 * @property {string[]} [continuations] ids of what follows on branches that are not shown
 *
 * @typedef {{results: Message[], has_before: boolean, has_after: boolean}} MessagePage
 *
 * @typedef {object} Session
 * @property {string} id
 * @property {string} title
 * @property {{slug: string, name: string}} assistant
 * @property {boolean} is_pinned
 * @property {boolean} is_archived
 * @property {boolean} is_temporary
 * @property {boolean | null} memory_enabled
 * @property {number} memory_starts_after
 * @property {number} message_count
 * @property {string | null} running
 * @property {string} last_active_at
 *
 * @typedef {object} Preference
 * @property {number} id
 * @property {string} key
 * @property {string} text
 * @property {string} scope
 * @property {"proposed" | "active" | "superseded" | "disabled"} status
 * @property {string} origin
 * @property {string} [quote] the words that it was taken from
 * @property {{session: string, seq: number | null} | null} [source]
 * @property {string | null} [expires_at]
 * @property {string | null} [last_used_at]
 *
 * @typedef {object} Digest what was put together out of earlier conversations
 * @property {string} id
 * @property {string} text
 * @property {boolean} is_enabled
 * @property {string} origin
 * @property {string} updated_at
 * @property {number} sources conversations
 *
 * @typedef {object} Receipt of a removal
 * @property {string} id
 * @property {string} kind
 * @property {Record<string, number>} counts by place
 * @property {boolean} is_complete
 * @property {number} pending
 * @property {string} created_at
 *
 * @typedef {object} ContextFrame what the request of a turn holds, in numbers
 * @property {string} turn
 * @property {number} tokens
 * @property {number} budget
 * @property {{from_seq: number | null, through_seq: number | null, messages: number}} window
 * @property {number} [of] messages before the input
 * @property {Record<string, number>} left_out
 * @property {{id: number | string, key: string, text?: string}[]} preferences
 * @property {{version: number, covers_through: number} | null} [summary]
 * @property {boolean} [digest]
 *
 * @typedef {object} PageData
 * @property {string | null} session
 * @property {string} user
 * @property {{slug: string, name: string}[]} assistants
 * @property {string[]} demo_assistants
 * @property {number} max_message_chars
 * @property {number} max_attachments
 * @property {number} max_attachment_bytes
 * @property {boolean} memory_available
 * @property {string} username
 * @property {number} temporary_hours
 *
 * @typedef {Record<string, any> & {type: string}} Frame
 */

export {};
