// What eslint holds the dashboard's JavaScript to.

import js from '@eslint/js';
import globals from 'globals';

// Names come from clusters: what is made of them must stay text.
const markup = ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'setHTMLUnsafe', 'write', 'writeln', 'srcdoc'].map((property) => ({property, message: 'Texts become text nodes: use h, s or fill of dom.js.'}));

export default [
  js.configs.recommended,
  {
    linterOptions: {reportUnusedDisableDirectives: 'error'},
    languageOptions: {ecmaVersion: 2023, sourceType: 'module', globals: globals.browser},
    rules: {
      'array-callback-return': 'error',
      'consistent-return': 'error',
      'curly': ['error', 'multi-line'],
      'default-case-last': 'error',
      'eqeqeq': 'error',
      'no-alert': 'error',
      'no-console': 'error',
      'no-else-return': 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-lonely-if': 'error',
      'no-new-func': 'error',
      'no-promise-executor-return': ['error', {allowVoid: true}],
      'no-restricted-properties': ['error', ...markup],
      'no-script-url': 'error',
      'no-self-compare': 'error',
      'no-shadow': ['error', {builtinGlobals: false}],
      'no-throw-literal': 'error',
      'no-unneeded-ternary': 'error',
      'no-unused-vars': ['error', {args: 'all', ignoreRestSiblings: true}],
      'no-useless-concat': 'error',
      'no-useless-rename': 'error',
      'no-useless-return': 'error',
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
      'prefer-template': 'error',
      'radix': 'error',
    },
  },
];
